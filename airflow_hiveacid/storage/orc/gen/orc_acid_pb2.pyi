from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PostScript(_message.Message):
    __slots__ = ("footer_length", "compression", "compression_block_size", "version", "metadata_length", "writer_version", "stripe_statistics_length", "magic")
    FOOTER_LENGTH_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_FIELD_NUMBER: _ClassVar[int]
    COMPRESSION_BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    METADATA_LENGTH_FIELD_NUMBER: _ClassVar[int]
    WRITER_VERSION_FIELD_NUMBER: _ClassVar[int]
    STRIPE_STATISTICS_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MAGIC_FIELD_NUMBER: _ClassVar[int]
    footer_length: int
    compression: int
    compression_block_size: int
    version: _containers.RepeatedScalarFieldContainer[int]
    metadata_length: int
    writer_version: int
    stripe_statistics_length: int
    magic: bytes
    def __init__(self, footer_length: _Optional[int] = ..., compression: _Optional[int] = ..., compression_block_size: _Optional[int] = ..., version: _Optional[_Iterable[int]] = ..., metadata_length: _Optional[int] = ..., writer_version: _Optional[int] = ..., stripe_statistics_length: _Optional[int] = ..., magic: _Optional[bytes] = ...) -> None: ...

class Footer(_message.Message):
    __slots__ = ("header_length", "content_length", "stripes", "types", "metadata", "rows", "statistics", "row_index_stride", "writer", "calendar", "software_version")
    HEADER_LENGTH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    ROW_INDEX_STRIDE_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    CALENDAR_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_VERSION_FIELD_NUMBER: _ClassVar[int]
    header_length: int
    content_length: int
    stripes: _containers.RepeatedCompositeFieldContainer[Stripe]
    types: _containers.RepeatedCompositeFieldContainer[Type]
    metadata: _containers.RepeatedCompositeFieldContainer[UserMetadata]
    rows: int
    statistics: _containers.RepeatedCompositeFieldContainer[ColumnStatistics]
    row_index_stride: int
    writer: int
    calendar: int
    software_version: str
    def __init__(self, header_length: _Optional[int] = ..., content_length: _Optional[int] = ..., stripes: _Optional[_Iterable[_Union[Stripe, _Mapping]]] = ..., types: _Optional[_Iterable[_Union[Type, _Mapping]]] = ..., metadata: _Optional[_Iterable[_Union[UserMetadata, _Mapping]]] = ..., rows: _Optional[int] = ..., statistics: _Optional[_Iterable[_Union[ColumnStatistics, _Mapping]]] = ..., row_index_stride: _Optional[int] = ..., writer: _Optional[int] = ..., calendar: _Optional[int] = ..., software_version: _Optional[str] = ...) -> None: ...

class Stripe(_message.Message):
    __slots__ = ("offset", "index_length", "data_length", "footer_length", "rows")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    INDEX_LENGTH_FIELD_NUMBER: _ClassVar[int]
    DATA_LENGTH_FIELD_NUMBER: _ClassVar[int]
    FOOTER_LENGTH_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    offset: int
    index_length: int
    data_length: int
    footer_length: int
    rows: int
    def __init__(self, offset: _Optional[int] = ..., index_length: _Optional[int] = ..., data_length: _Optional[int] = ..., footer_length: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class Type(_message.Message):
    __slots__ = ("kind", "children", "field_names", "maximum_length", "precision", "scale")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    FIELD_NAMES_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_LENGTH_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    kind: int
    children: _containers.RepeatedScalarFieldContainer[int]
    field_names: _containers.RepeatedScalarFieldContainer[str]
    maximum_length: int
    precision: int
    scale: int
    def __init__(self, kind: _Optional[int] = ..., children: _Optional[_Iterable[int]] = ..., field_names: _Optional[_Iterable[str]] = ..., maximum_length: _Optional[int] = ..., precision: _Optional[int] = ..., scale: _Optional[int] = ...) -> None: ...

class UserMetadata(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("stripes",)
    STRIPES_FIELD_NUMBER: _ClassVar[int]
    stripes: _containers.RepeatedCompositeFieldContainer[StripeStatistics]
    def __init__(self, stripes: _Optional[_Iterable[_Union[StripeStatistics, _Mapping]]] = ...) -> None: ...

class StripeStatistics(_message.Message):
    __slots__ = ("columns",)
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnStatistics]
    def __init__(self, columns: _Optional[_Iterable[_Union[ColumnStatistics, _Mapping]]] = ...) -> None: ...

class ColumnStatistics(_message.Message):
    __slots__ = ("values", "integers", "doubles", "strings", "booleans", "decimals", "dates", "binaries", "timestamps", "has_null", "bytes_on_disk", "collections")
    VALUES_FIELD_NUMBER: _ClassVar[int]
    INTEGERS_FIELD_NUMBER: _ClassVar[int]
    DOUBLES_FIELD_NUMBER: _ClassVar[int]
    STRINGS_FIELD_NUMBER: _ClassVar[int]
    BOOLEANS_FIELD_NUMBER: _ClassVar[int]
    DECIMALS_FIELD_NUMBER: _ClassVar[int]
    DATES_FIELD_NUMBER: _ClassVar[int]
    BINARIES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    HAS_NULL_FIELD_NUMBER: _ClassVar[int]
    BYTES_ON_DISK_FIELD_NUMBER: _ClassVar[int]
    COLLECTIONS_FIELD_NUMBER: _ClassVar[int]
    values: int
    integers: IntegerStatistics
    doubles: DoubleStatistics
    strings: StringStatistics
    booleans: BooleanStatistics
    decimals: DecimalStatistics
    dates: DateStatistics
    binaries: BinaryStatistics
    timestamps: TimestampStatistics
    has_null: bool
    bytes_on_disk: int
    collections: CollectionStatistics
    def __init__(self, values: _Optional[int] = ..., integers: _Optional[_Union[IntegerStatistics, _Mapping]] = ..., doubles: _Optional[_Union[DoubleStatistics, _Mapping]] = ..., strings: _Optional[_Union[StringStatistics, _Mapping]] = ..., booleans: _Optional[_Union[BooleanStatistics, _Mapping]] = ..., decimals: _Optional[_Union[DecimalStatistics, _Mapping]] = ..., dates: _Optional[_Union[DateStatistics, _Mapping]] = ..., binaries: _Optional[_Union[BinaryStatistics, _Mapping]] = ..., timestamps: _Optional[_Union[TimestampStatistics, _Mapping]] = ..., has_null: bool = ..., bytes_on_disk: _Optional[int] = ..., collections: _Optional[_Union[CollectionStatistics, _Mapping]] = ...) -> None: ...

class IntegerStatistics(_message.Message):
    __slots__ = ("minimum", "maximum", "sum")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    minimum: int
    maximum: int
    sum: int
    def __init__(self, minimum: _Optional[int] = ..., maximum: _Optional[int] = ..., sum: _Optional[int] = ...) -> None: ...

class DoubleStatistics(_message.Message):
    __slots__ = ("minimum", "maximum", "sum")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    minimum: float
    maximum: float
    sum: float
    def __init__(self, minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., sum: _Optional[float] = ...) -> None: ...

class StringStatistics(_message.Message):
    __slots__ = ("minimum", "maximum", "sum", "lower_bound", "upper_bound")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    minimum: bytes
    maximum: bytes
    sum: int
    lower_bound: bytes
    upper_bound: bytes
    def __init__(self, minimum: _Optional[bytes] = ..., maximum: _Optional[bytes] = ..., sum: _Optional[int] = ..., lower_bound: _Optional[bytes] = ..., upper_bound: _Optional[bytes] = ...) -> None: ...

class BooleanStatistics(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, count: _Optional[_Iterable[int]] = ...) -> None: ...

class DecimalStatistics(_message.Message):
    __slots__ = ("minimum", "maximum", "sum")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    SUM_FIELD_NUMBER: _ClassVar[int]
    minimum: str
    maximum: str
    sum: str
    def __init__(self, minimum: _Optional[str] = ..., maximum: _Optional[str] = ..., sum: _Optional[str] = ...) -> None: ...

class DateStatistics(_message.Message):
    __slots__ = ("minimum", "maximum")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    minimum: int
    maximum: int
    def __init__(self, minimum: _Optional[int] = ..., maximum: _Optional[int] = ...) -> None: ...

class BinaryStatistics(_message.Message):
    __slots__ = ("sum",)
    SUM_FIELD_NUMBER: _ClassVar[int]
    sum: int
    def __init__(self, sum: _Optional[int] = ...) -> None: ...

class TimestampStatistics(_message.Message):
    __slots__ = ("minimum", "maximum", "minimum_utc", "maximum_utc", "minimum_nanos", "maximum_nanos")
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_UTC_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_UTC_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_NANOS_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_NANOS_FIELD_NUMBER: _ClassVar[int]
    minimum: int
    maximum: int
    minimum_utc: int
    maximum_utc: int
    minimum_nanos: int
    maximum_nanos: int
    def __init__(self, minimum: _Optional[int] = ..., maximum: _Optional[int] = ..., minimum_utc: _Optional[int] = ..., maximum_utc: _Optional[int] = ..., minimum_nanos: _Optional[int] = ..., maximum_nanos: _Optional[int] = ...) -> None: ...

class CollectionStatistics(_message.Message):
    __slots__ = ("minimum_children", "maximum_children", "total_children")
    MINIMUM_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CHILDREN_FIELD_NUMBER: _ClassVar[int]
    minimum_children: int
    maximum_children: int
    total_children: int
    def __init__(self, minimum_children: _Optional[int] = ..., maximum_children: _Optional[int] = ..., total_children: _Optional[int] = ...) -> None: ...

class StripeFooter(_message.Message):
    __slots__ = ("streams", "columns", "writer_time_zone")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    WRITER_TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnEncoding]
    writer_time_zone: str
    def __init__(self, streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., columns: _Optional[_Iterable[_Union[ColumnEncoding, _Mapping]]] = ..., writer_time_zone: _Optional[str] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("kind", "column", "length")
    KIND_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    kind: int
    column: int
    length: int
    def __init__(self, kind: _Optional[int] = ..., column: _Optional[int] = ..., length: _Optional[int] = ...) -> None: ...

class ColumnEncoding(_message.Message):
    __slots__ = ("kind", "dictionary_size")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DICTIONARY_SIZE_FIELD_NUMBER: _ClassVar[int]
    kind: int
    dictionary_size: int
    def __init__(self, kind: _Optional[int] = ..., dictionary_size: _Optional[int] = ...) -> None: ...

class RowIndex(_message.Message):
    __slots__ = ("entries",)
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[RowIndexEntry]
    def __init__(self, entries: _Optional[_Iterable[_Union[RowIndexEntry, _Mapping]]] = ...) -> None: ...

class RowIndexEntry(_message.Message):
    __slots__ = ("positions", "statistics")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedScalarFieldContainer[int]
    statistics: ColumnStatistics
    def __init__(self, positions: _Optional[_Iterable[int]] = ..., statistics: _Optional[_Union[ColumnStatistics, _Mapping]] = ...) -> None: ...
