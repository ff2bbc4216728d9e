-- What the planner thinks of pages here, and the database that this is.
select pg_catalog.convert_to(pg_catalog.current_database(), %(encoding)s),
       pg_catalog.current_setting('server_version'),
       pg_catalog.current_setting('random_page_cost')::float8,
       pg_catalog.current_setting('seq_page_cost')::float8
