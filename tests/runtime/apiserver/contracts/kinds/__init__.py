"""Objects of every kind, valid and not: what is made of them here and by kube-apiserver 1.36.

play.py     how they are sent; tables/: the objects, by group
answers/    what kube-apiserver answered, by table
"""
