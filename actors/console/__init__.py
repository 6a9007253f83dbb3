"""Content of the web console: what each of its pages shows and does. runtime/serving/console/ serves it.

states      supervision tree and controllers
parts       all of it, for a running system
"""
