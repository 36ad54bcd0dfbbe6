"""Requests about plans that do not run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyspark
import pyspark.sql.connect.proto as pb
from pyspark.sql import DataFrame

from moulin.errors import InvalidInput, PermissionDenied, Unsupported
from moulin.pipeline.connect.session import ConnectSession, schema_message
from moulin.sql_server.plans import relation_of

_EXPLAIN = pb.AnalyzePlanRequest.Explain.ExplainMode
_MODES = {
    _EXPLAIN.EXPLAIN_MODE_UNSPECIFIED: "simple",
    _EXPLAIN.EXPLAIN_MODE_SIMPLE: "simple",
    _EXPLAIN.EXPLAIN_MODE_EXTENDED: "extended",
    _EXPLAIN.EXPLAIN_MODE_CODEGEN: "codegen",
    _EXPLAIN.EXPLAIN_MODE_COST: "cost",
    _EXPLAIN.EXPLAIN_MODE_FORMATTED: "formatted",
}
_NOT_KEPT = "This server keeps no results between queries: save them as a table, or collect them."


class Analysis:
    """Answers for one session."""

    def __init__(self, session: ConnectSession, largest: int) -> None:
        self._session, self._largest = session, largest

    def __call__(self, request: pb.AnalyzePlanRequest) -> pb.AnalyzePlanResponse:
        kind = request.WhichOneof("analyze")
        answer = _ANSWERS.get(str(kind))
        if kind is None or answer is None:
            raise Unsupported(f"This server does not support {kind} of Spark Connect.")
        response = pb.AnalyzePlanResponse()
        answer(self, getattr(request, kind), getattr(response, kind))
        getattr(response, kind).SetInParent()
        return response

    def _frame(self, plan: pb.Plan) -> DataFrame:
        return self._session.frame(relation_of(plan, self._largest))

    def _schema(self, asked: Any, answer: Any) -> None:
        answer.schema.CopyFrom(schema_message(self._frame(asked.plan)))

    def _explain(self, asked: Any, answer: Any) -> None:
        frame = self._frame(asked.plan)
        jvm: Any = frame.sparkSession._jvm
        mode = jvm.org.apache.spark.sql.execution.ExplainMode.fromString(_MODES[asked.explain_mode])
        answer.explain_string = frame._jdf.queryExecution().explainString(mode)

    def _tree(self, asked: Any, answer: Any) -> None:
        schema = self._frame(asked.plan)._jdf.schema()
        answer.tree_string = schema.treeString(asked.level) if asked.HasField("level") else schema.treeString()

    def _is_local(self, asked: Any, answer: Any) -> None:
        answer.is_local = self._frame(asked.plan).isLocal()

    def _is_streaming(self, asked: Any, answer: Any) -> None:
        answer.is_streaming = False

    def _version(self, asked: Any, answer: Any) -> None:
        answer.version = pyspark.__version__

    def _ddl_parse(self, asked: Any, answer: Any) -> None:
        answer.parsed.CopyFrom(self._session.type_of(asked.ddl_string))

    def _json_to_ddl(self, asked: Any, answer: Any) -> None:
        answer.ddl_string = self._session.ddl_of(asked.json_string)

    def _same(self, asked: Any, answer: Any) -> None:
        target, other = self._frame(asked.target_plan), self._frame(asked.other_plan)
        answer.result = target._jdf.sameSemantics(other._jdf)

    def _hash(self, asked: Any, answer: Any) -> None:
        answer.result = self._frame(asked.plan)._jdf.semanticHash()

    def _files(self, asked: Any, answer: Any) -> None:
        raise PermissionDenied("Clients cannot see the files of a table: remove inputFiles.")

    def _keep(self, asked: Any, answer: Any) -> None:
        raise Unsupported(_NOT_KEPT)

    def _level(self, asked: Any, answer: Any) -> None:
        if asked.relation.WhichOneof("rel_type") is None:
            raise InvalidInput("This call needs a relation.")
        answer.storage_level.SetInParent()


_ANSWERS: dict[str, Callable[[Analysis, Any, Any], None]] = {
    "schema": Analysis._schema,
    "explain": Analysis._explain,
    "tree_string": Analysis._tree,
    "is_local": Analysis._is_local,
    "is_streaming": Analysis._is_streaming,
    "input_files": Analysis._files,
    "spark_version": Analysis._version,
    "ddl_parse": Analysis._ddl_parse,
    "json_to_ddl": Analysis._json_to_ddl,
    "same_semantics": Analysis._same,
    "semantic_hash": Analysis._hash,
    "persist": Analysis._keep,
    "unpersist": Analysis._keep,
    "get_storage_level": Analysis._level,
}
