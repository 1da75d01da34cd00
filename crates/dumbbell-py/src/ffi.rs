//! Functions of a compiled controller, called by address. The only unsafe code of the project.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::layout;

/// `int32_t method(double *state, const struct event *event)`: 0, or anything else to end the run.
type Function = unsafe extern "C" fn(*mut f64, *const core::ffi::c_void) -> i32;

/// A function that takes an event of type `E`.
#[derive(Clone, Copy)]
pub(crate) struct Callback<E> {
    function: Function,
    event: PhantomData<fn(&E)>,
}

impl<E> Callback<E> {
    /// Whether the function ended well.
    #[inline]
    pub(crate) fn call(self, state: &mut [f64], event: &E) -> bool {
        // SAFETY: `Functions::read` had the address from a Python object that vouches for it: a
        // function of this signature, whose code the object keeps alive as long as the controller
        // lives. `state` is as long as the object's list of fields, `E` is the struct whose layout
        // Python was told; both outlive the call, and nothing else refers to `state` meanwhile.
        unsafe { (self.function)(state.as_mut_ptr(), std::ptr::from_ref(event).cast()) == 0 }
    }
}

/// The functions of one controller.
pub(crate) struct Functions {
    pub(crate) on_start: Option<Callback<layout::Start>>,
    pub(crate) on_ack: Option<Callback<layout::Ack>>,
    pub(crate) on_congestion: Option<Callback<layout::Congestion>>,
    pub(crate) on_rto: Option<Callback<layout::Rto>>,
    pub(crate) on_undo: Option<Callback<layout::Undo>>,
    pub(crate) on_recovery_exit: Option<Callback<layout::RecoveryExit>>,
    pub(crate) on_idle_restart: Option<Callback<layout::IdleRestart>>,
    pub(crate) on_sent: Option<Callback<layout::Sent>>,
}

impl Functions {
    /// From a mapping of method names to addresses.
    pub(crate) fn read(addresses: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            on_start: callback(addresses, "on_start")?,
            on_ack: callback(addresses, "on_ack")?,
            on_congestion: callback(addresses, "on_congestion")?,
            on_rto: callback(addresses, "on_rto")?,
            on_undo: callback(addresses, "on_undo")?,
            on_recovery_exit: callback(addresses, "on_recovery_exit")?,
            on_idle_restart: callback(addresses, "on_idle_restart")?,
            on_sent: callback(addresses, "on_sent")?,
        })
    }
}

fn callback<E>(addresses: &Bound<'_, PyAny>, method: &str) -> PyResult<Option<Callback<E>>> {
    let address = addresses.call_method1("get", (method,))?;
    if address.is_none() {
        return Ok(None);
    }
    let address: usize = address.extract()?;
    if address == 0 {
        return Err(PyValueError::new_err(format!("{method}: the address of its function is 0")));
    }
    // SAFETY: a function pointer is any address but 0, and of the size of one. That a function of
    // this signature is there is for the Python object to see to, as it is with ctypes.
    let function = unsafe {
        std::mem::transmute::<*const (), Function>(std::ptr::with_exposed_provenance(address))
    };
    Ok(Some(Callback { function, event: PhantomData }))
}
