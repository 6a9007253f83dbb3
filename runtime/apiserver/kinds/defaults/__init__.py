"""What the server fills in where a client said nothing: one file a family of kinds.

Each function changes an object in place, whose fields have the types of its kind, and changes nothing when called
again. "" and an empty list count as nothing said wherever upstream's types cannot tell them from it.
"""
