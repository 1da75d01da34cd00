//! Tables handed to Python through the Arrow PyCapsule interface.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, Float64Array, PrimitiveArray, RecordBatch, RecordBatchIterator,
    RecordBatchOptions, StringArray, UInt64Array,
};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use dumbbell_sim::Column;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const SCHEMA_NAME: &CStr = c"arrow_schema";
const STREAM_NAME: &CStr = c"arrow_array_stream";

/// Columns of a run's result. Any Arrow library reads it: `pyarrow.table(t)`, `polars.DataFrame(t)`,
/// `duckdb.from_arrow(t)`.
#[pyclass(frozen, module = "dumbbell._core")]
pub(crate) struct Table(RecordBatch);

impl Table {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self(batch)
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<Table {} rows: {}>", self.0.num_rows(), self.column_names().join(", "))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
    }

    /// The interface lets a producer ignore `requested_schema`, and this one has a single schema.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM_NAME)
    }
}

/// Moves the columns' memory into Arrow buffers.
pub(crate) fn record_batch(table: dumbbell_sim::Table) -> Result<RecordBatch, ArrowError> {
    let rows = table.rows();
    let mut fields = Vec::with_capacity(table.columns.len());
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(table.columns.len());
    for (name, column) in table.columns {
        let array: ArrayRef = match column {
            Column::F64(values) => Arc::new(Float64Array::from(values)),
            Column::U64(values) => Arc::new(UInt64Array::from(values)),
            Column::Name { codes, names } => Arc::new(dictionary(codes, names)?),
        };
        fields.push(Field::new(name, array.data_type().clone(), false));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}

/// Signed indexes over the same bytes: pyarrow converts no unsigned dictionary to pandas.
fn dictionary(
    codes: Vec<u32>,
    names: Vec<String>,
) -> Result<DictionaryArray<Int32Type>, ArrowError> {
    let length = codes.len();
    let keys = ScalarBuffer::<i32>::new(Buffer::from_vec(codes), 0, length);
    DictionaryArray::try_new(PrimitiveArray::new(keys, None), Arc::new(StringArray::from(names)))
}

pub(crate) fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
