"""The OpenTelemetry SDK of Python: logs to a collector of Moulin. The endpoint and token come from the environment.

OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer ing_..."
"""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource({"service.name": "checkout"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("recipe")

with tracer.start_as_current_span("order") as order:
    order.set_attribute("order.id", 42)
    with tracer.start_as_current_span("pay"):
        pass

provider.shutdown()  # sends what waits
