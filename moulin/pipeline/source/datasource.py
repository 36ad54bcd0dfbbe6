"""`format("moulin")`: tables of a lake in any Spark session, batch read and write.

    spark.read.format("moulin").option("lake", "./lake").load("shop.orders")
    frame.write.format("moulin").option("lake", "./lake").mode("append").save("shop.orders")

A write to a keyed table replaces rows by key; `.option("mode", "upsert")` requires that, and is rejected by other
tables. A duplicate key raises an error, or with `.option("duplicates", "last")` the last row wins.

With the option `changes_since` it reads the change feed, in one batch or as a stream: see feed_source.py. What
`writeStream` does is in stream_writer.py.

Spark runs this in separate Python processes: planning and committing each open the lake again. They see committed rows:
flush puts first. A keyed table that another process has open for puts can only be written there.

All columns are read, because Spark's Python data sources are not told which ones a query needs; `.schema("id long,
...")` on the reader narrows them. Nor are they told reliably which rows it needs: `.option("where", "id > 5")` leaves
out rows, and files without any. lake.sql and table.to_spark() read natively and are faster; a session that knows the
lake reads it so, too (loaded.py).

Spark imports this module in a process that does nothing but look for data sources: the rest loads when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class MoulinSource(DataSource):
    """The tables of a lake as a Spark data source."""

    @classmethod
    def name(cls) -> str:
        return "moulin"

    def schema(self) -> StructType:
        from moulin.pipeline.read.columns import spark_schema
        from moulin.pipeline.read.feed import feed_schema
        from moulin.pipeline.source.errors import in_one_sentence
        from moulin.pipeline.source.options import FeedOptions, SourceTable

        with in_one_sentence():
            source, feed = SourceTable.of(self.options), FeedOptions.of(self.options)
            with source.open() as lake:
                if feed is not None:
                    return feed_schema(feed.state(lake, source.table))
                return spark_schema(source.state(lake).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        from moulin.pipeline.source.errors import in_one_sentence
        from moulin.pipeline.source.feed_source import FeedSourceReader
        from moulin.pipeline.source.options import FeedOptions, SourceTable
        from moulin.pipeline.source.table_source import TableSourceReader

        with in_one_sentence():
            source, feed = SourceTable.of(self.options), FeedOptions.of(self.options)
            return TableSourceReader(source, schema) if feed is None else FeedSourceReader(source, feed, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from moulin.errors import MoulinError
        from moulin.pipeline.source.errors import in_worker
        from moulin.pipeline.source.feed_source import FeedStreamReader, RefusedStream
        from moulin.pipeline.source.options import FeedOptions, SourceTable

        try:
            return FeedStreamReader(SourceTable.of(self.options), FeedOptions.of(self.options), schema)
        except MoulinError as error:
            if not in_worker():
                raise
            return RefusedStream(error)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from moulin.pipeline.source.errors import in_one_sentence
        from moulin.pipeline.source.options import source_to_write
        from moulin.pipeline.source.stream_writer import StreamTableWriter
        from moulin.pipeline.write.source_write import WriteOptions

        query_id = self.options.get("query_id")
        with in_one_sentence():
            source = source_to_write(self.options)
            return StreamTableWriter(source, schema, overwrite, query_id, WriteOptions.of(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from moulin.errors import InvalidInput
        from moulin.pipeline.source.errors import in_one_sentence
        from moulin.pipeline.source.options import source_to_write
        from moulin.pipeline.source.table_source import TableSourceWriter
        from moulin.pipeline.write.source_write import WriteOptions

        with in_one_sentence():
            if self.options.get("query_id") is not None:
                raise InvalidInput("The option query_id is only for writeStream.")
            return TableSourceWriter(source_to_write(self.options), schema, overwrite, WriteOptions.of(self.options))
