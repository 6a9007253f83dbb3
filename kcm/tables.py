"""Tables: the objects that a controller watches, as its reconciler reads them."""

from kcm.runtime.tables.lister import Lister, UnreadableError
from kcm.runtime.tables.tables import TableMissingError, Tables

__all__ = ["Lister", "TableMissingError", "Tables", "UnreadableError"]
