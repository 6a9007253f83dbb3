"""Content of the web console: what each of its pages shows and does. runtime/serving/console/ serves it.

states      supervision tree and controllers
cluster     zones and nodes, pods and rollouts over time
story       the past of one object, and the objects around it
faults      fault board of the embedded cluster
parts       all of it, for a running system
"""
