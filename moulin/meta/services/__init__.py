"""One module for each gRPC service, with one servicer in it; one method for each call, in the order of the proto file.

ClusterService alone is in `server/cluster.py`.
A servicer checks what a request names, calls the catalog, and answers. It holds no state but its `Site`, and makes no
decision that the catalog can make. `catalog_service` serves `moulin.lake.v1`, for lakes in other processes; all others
serve `moulin.meta.v1`, the public services. `new_segment` is not a service: it returns the facts of a segment that a
request names, and reads from the file what the request leaves out; `nursery` and `merge_task` call it.
May import `codec`, `site`, `auth` and `roles`, and the layers below meta; never `client` or `server`.
Messages are made by `codec`; a servicer only fills responses with them.
Read `database.py` first: it is the shortest, and the others have its shape.
"""
