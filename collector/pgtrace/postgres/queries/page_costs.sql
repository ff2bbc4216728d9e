-- What the planner thinks of pages here, and the database that this is.
select convert_to(current_database(), %(encoding)s),
       current_setting('server_version'),
       current_setting('random_page_cost')::float8,
       current_setting('seq_page_cost')::float8
