//! A number for each packet by its DSCP, as an edge gives the users of one profile.

use serde_json::json;

use crate::classes::DSCPS;
use crate::params::{ParamInfo, Unit, Values};
use crate::{BuildError, Packet};

#[derive(Clone, Debug)]
pub(crate) struct Profiles {
    by_dscp: [f64; DSCPS],
}

impl Profiles {
    /// What one of the `classes` takes: DSCPs and `number`.
    pub(crate) fn info(number: ParamInfo) -> Vec<ParamInfo> {
        vec![ParamInfo::new("dscp", Unit::Dscps, json!([]), "The DSCPs that it holds for"), number]
    }

    /// The numbers of the `classes`, and the queue's own for packets of none.
    ///
    /// # Errors
    /// What is wrong with a class.
    pub(crate) fn from_values(values: &Values, number: ParamInfo) -> Result<Self, BuildError> {
        let name = number.name;
        let mut by_dscp = [values.number(name); DSCPS];
        for class in values.classes("classes", &Self::info(number))? {
            for dscp in class.dscps("dscp") {
                by_dscp[usize::from(dscp)] = class.number(name);
            }
        }
        Ok(Self { by_dscp })
    }

    pub(crate) fn of(&self, packet: &impl Packet) -> f64 {
        self.by_dscp[usize::from(packet.dscp()) % DSCPS]
    }
}
