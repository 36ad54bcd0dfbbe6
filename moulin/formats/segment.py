"""Segments: immutable Parquet files, tuned for rows at level 0 and for columns above. Layout: docs/formats/segment.md."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField

from moulin.errors import Closed, InvalidInput
from moulin.formats.segment_footer import footer_facts, sequence_range, split_offsets
from moulin.model.arrow import arrow_schema, field_id
from moulin.model.bounds import time_range_ns
from moulin.model.facts import ColumnFacts, SegmentFacts
from moulin.model.schema import schema_to_json
