//! Some Congestion Experienced: COBALT that also gives a weaker signal, ECT(1) on packets with ECT(0),
//! on one queue or on flow queues.

use crate::cobalt::{CobaltParams, Ramp, Sce};
use crate::fq_cobalt;
use crate::params::{ParamInfo, QueueInfo, Unit, Values};
use crate::{Built, Packet};

pub(crate) fn info() -> QueueInfo {
    let mut params = CobaltParams::info();
    params.extend([
        ParamInfo::choice(
            "marking",
            &["ramp", "codel"],
            "SCE at random by a ramp of the delay, or by a second CoDel schedule",
        ),
        ParamInfo::choice(
            "ramp",
            &Ramp::NAMES,
            "Ramp from half the target to the target, to twice the target, or from one to the other",
        ),
        ParamInfo::new(
            "knee",
            Unit::Count,
            4,
            "Straddling ramp: one mark in so many at the target; codel: so many times as fast as CE",
        )
        .at_least(1.0)
        .at_most(1024.0),
    ]);
    params.extend(fq_cobalt::queueing_info(1));
    QueueInfo {
        name: "sce",
        summary: "COBALT that marks some congestion experienced below or around its target",
        source: "draft-morton-tsvwg-sce; SCE kernel sch_cake and sch_cobalt",
        params,
        classes: Vec::new(),
    }
}

pub(crate) fn build<P: Packet + Send + 'static>(values: &Values, seed: u64) -> Built<P> {
    let params = CobaltParams::from_values(values);
    let knee = values.whole("knee");
    let sce = match values.choice("marking") {
        "codel" => Sce::schedule(params.target, params.interval, knee),
        _ => Ramp::named(values.choice("ramp"), knee).map_or(Sce::Off, Sce::Ramp),
    };
    Ok(fq_cobalt::build_with(CobaltParams { sce, ..params }, values, seed))
}
