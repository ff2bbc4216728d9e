select t.oid, convert_to(t.spcname, %(encoding)s)
from pg_tablespace as t
