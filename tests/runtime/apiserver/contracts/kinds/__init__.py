"""Valid and invalid objects of every kind, sent to this server and to kube-apiserver 1.36.

play.py                sends the objects; tables/ contains them by group
../responses/kinds/    responses of kube-apiserver, by table
"""
