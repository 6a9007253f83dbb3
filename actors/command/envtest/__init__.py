"""`run-kcm envtest DIR`: programs for envtest, by file.

command.py             writes the programs into a directory
etcd.py                the program `etcd`, which keeps the directory of the stored objects
kube_apiserver.py      the program `kube-apiserver`, which is the embedded API server
apiserver_flags.py     its flags: those with an effect, those without one, and those that are refused
server_settings.py     settings of the embedded API server from these flags
"""
