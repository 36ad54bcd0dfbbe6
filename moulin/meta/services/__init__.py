"""One module for each gRPC service, with one servicer in it; one method for each call, in the order of the proto file.

ClusterService alone is in `server/cluster.py`.
A servicer checks the request, calls the catalog, and returns the response. It has no state except its `Site`, and
leaves decisions to the catalog. `catalog_service` serves `moulin.lake.v1`, for lakes in other processes; all others
serve `moulin.meta.v1`, the public services. `new_segment` is not a service: it returns the facts of a segment in a
request, and reads missing ones from the file; `nursery` and `merge_task` call it. May import `codec`, `site`, `auth`
and `roles`, and the layers below meta; never `client` or `server`. Messages are made by `codec`; a servicer only fills
responses with them. Read `database.py` first: it is the shortest, and the others have its shape.
"""
