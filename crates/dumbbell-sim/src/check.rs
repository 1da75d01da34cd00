//! Checks of a configuration beyond its types: what the engine relies on.

use crate::config::{self, Capacity, Config, Hop, Law, Loss, Rwnd, Traffic, Transport, Users};
use crate::coupling::shares;
use crate::run::RunError;

/// Largest counts that the timer ids hold.
const MAX_FLOWS: usize = 1 << 27;
const MAX_LINKS: usize = 1 << 20;
const MAX_HOPS: usize = 250;

fn ensure(ok: bool, key: &str, message: &str) -> Result<(), RunError> {
    if ok { Ok(()) } else { Err(RunError::config(key, message)) }
}

fn probability(value: f64, key: &str) -> Result<(), RunError> {
    ensure((0.0..=1.0).contains(&value), key, "expected a probability between 0 and 1")
}

fn loss(law: &Loss, key: &str) -> Result<(), RunError> {
    match law {
        Loss::None | Loss::Nth { .. } => Ok(()),
        Loss::Bernoulli { p } => probability(*p, key),
        Loss::GilbertElliott { p, r, loss_bad, loss_good } => {
            [p, r, loss_bad, loss_good].into_iter().try_for_each(|&value| probability(value, key))
        }
        Loss::Periodic { period } => ensure(*period > 0, key, "expected a period of at least 1"),
    }
}

fn law(law: &Law, key: &str) -> Result<(), RunError> {
    let positive = |value: f64| value.is_finite() && value >= 0.0;
    let ok = match law {
        Law::Constant { value } => positive(*value),
        Law::Uniform { low, high } => positive(*low) && high.is_finite() && high >= low,
        Law::Exponential { mean } => positive(*mean),
        Law::Pareto { mean, shape, max } => {
            positive(*mean) && shape.is_finite() && *shape > 1.0 && max.is_none_or(positive)
        }
        Law::Empirical { values } => !values.is_empty() && values.iter().all(|&v| positive(v)),
    };
    ensure(ok, key, "expected finite values of at least 0 (and a Pareto shape above 1)")
}

impl Config {
    /// # Errors
    /// The first value that the engine cannot run with.
    pub fn check(&self) -> Result<(), RunError> {
        ensure(self.duration_ns > 0, "duration_ns", "expected a time above 0")?;
        ensure(self.duration_ns < 1 << 62, "duration_ns", "expected less than 146 years")?;
        ensure(self.warmup_ns < self.duration_ns, "warmup_ns", "expected less than the duration")?;
        ensure(
            self.interval_ns == 0 || self.interval_ns >= 1_000_000,
            "interval_ns",
            "expected 0 or at least 1 ms",
        )?;
        ensure(self.links.len() <= MAX_LINKS, "links", "too many links")?;
        ensure(self.flows.len() <= MAX_FLOWS, "flows", "too many flows")?;
        self.links.iter().try_for_each(check_link)?;
        for (index, path) in self.paths.iter().enumerate() {
            let key = format!("paths.{index}");
            self.check_route(&path.route, &key)?;
            self.check_route(&path.reverse_route, &key)?;
        }
        self.flows.iter().try_for_each(|flow| self.check_flow(flow))?;
        if let Some(record) = &self.users {
            ensure(record.interval_ns >= 1_000_000, "users", "expected at least 1 ms")?;
        }
        self.coupling.iter().try_for_each(|coupling| self.check_coupling(coupling))?;
        for probe in &self.probes {
            let key = format!("probes.{}", probe.id);
            self.check_route(&probe.route, &key)?;
            self.check_route(&probe.reverse_route, &key)?;
            ensure(probe.interval_ns > 0, &key, "expected an interval above 0")?;
            ensure((28..=65_000).contains(&probe.size_bytes), &key, "expected 28 to 65000 bytes")?;
        }
        Ok(())
    }

    fn check_route(&self, route: &[Hop], key: &str) -> Result<(), RunError> {
        let known = |hop: &Hop| hop.link() < self.links.len();
        ensure(route.iter().all(known), key, "a route names no link")?;
        ensure(route.len() <= MAX_HOPS, key, "expected at most 250 hops")
    }

    fn check_flow(&self, flow: &crate::config::Flow) -> Result<(), RunError> {
        let key = format!("flows.{}", flow.id);
        self.check_route(&flow.route, &key)?;
        self.check_route(&flow.reverse_route, &key)?;
        loss(&flow.loss, &key)?;
        ensure(flow.stop_ns > flow.start_ns, &key, "expected stop after start")?;
        match &flow.transport {
            Transport::Tcp(tcp) => {
                ensure((64..=60_000).contains(&tcp.mss), &key, "expected an mss of 64 to 60000")?;
                ensure(tcp.initial_window > 0, &key, "expected an initial window of at least 1")?;
                ensure(tcp.ack_every > 0, &key, "expected ack_every of at least 1")?;
                ensure(tcp.max_rate_bps != Some(0), &key, "expected a rate above 0")?;
                if let Rwnd::Fixed { bytes } | Rwnd::Auto { initial_bytes: bytes, .. } = tcp.rwnd {
                    let one = u64::from(tcp.mss);
                    ensure(bytes >= one, &key, "expected a receive window of at least one mss")?;
                }
            }
            Transport::Udp { payload_bytes } => {
                ensure((1..=60_000).contains(payload_bytes), &key, "expected 1 to 60000 bytes")?;
                let ok = matches!(flow.traffic, Traffic::ConstantRate { bps, .. } if bps > 0);
                ensure(ok, &key, "expected constant-rate traffic for udp")?;
            }
            Transport::Other(_) => {
                let no =
                    matches!(flow.traffic, Traffic::Users(_) | Traffic::RequestResponse { .. });
                ensure(!no, &key, "expected tcp for users and for requests")?;
                let own = matches!(flow.traffic, Traffic::Bulk | Traffic::Media(_));
                let media = carries_media(&flow.transport);
                ensure(own || !media, &key, "expected a media source for this transport")?;
            }
        }
        match &flow.traffic {
            Traffic::Bulk => Ok(()),
            Traffic::Media(source) => {
                let media = carries_media(&flow.transport);
                ensure(media, &key, "expected a transport for media")?;
                source.check().map_err(|message| RunError::config(&key, message))
            }
            Traffic::Size { bytes } => ensure(*bytes > 0, &key, "expected a size above 0"),
            Traffic::OnOff { on, off, .. } => law(on, &key).and_then(|()| law(off, &key)),
            Traffic::ConstantRate { bps, chunk_bytes } => {
                ensure(*bps > 0 && *chunk_bytes > 0, &key, "expected a rate and chunk above 0")
            }
            Traffic::Poisson { rate_hz, size } => {
                ensure(rate_hz.is_finite() && *rate_hz > 0.0, &key, "expected a rate above 0")?;
                law(size, &key)
            }
            Traffic::Users(users) => self.check_users(users, &key),
            Traffic::RequestResponse { request, response, think } => {
                [request, response, think].into_iter().try_for_each(|l| law(l, &key))
            }
        }
    }
}

impl Config {
    fn check_coupling(&self, coupling: &config::Coupling) -> Result<(), RunError> {
        let key = format!("coupling.{}", coupling.id);
        let Some(shared) = shares(&coupling.kind) else {
            return Err(RunError::config(&key, "unknown kind"));
        };
        ensure(!coupling.members.is_empty(), &key, "expected at least one flow")?;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        for member in &coupling.members {
            ensure(positive(member.priority), &key, "expected a priority above 0")?;
            let desired = member.desired_bps.is_none_or(positive);
            ensure(desired, &key, "expected a desired rate above 0")?;
            let Some(flow) = self.flows.get(member.flow) else {
                return Err(RunError::config(&key, "expected one of the flows"));
            };
            let single = !matches!(flow.traffic, Traffic::Users(_) | Traffic::Poisson { .. });
            ensure(single || shared == "window", &key, "expected flows of one connection")?;
        }
        let ascending = coupling.changes.is_sorted_by_key(|change| change.at_ns);
        ensure(ascending, &key, "expected changes at ascending times")?;
        for change in &coupling.changes {
            let known = change.member < coupling.members.len();
            ensure(known, &key, "expected one of the members")?;
            ensure(change.priority.is_none_or(positive), &key, "expected a priority above 0")?;
            let desired = change.desired_bps.is_none_or(|bps| bps.is_finite() && bps >= 0.0);
            ensure(desired, &key, "expected a desired rate of at least 0")?;
        }
        let steady = coupling.changes.is_empty() && coupling.detect.is_none();
        ensure(steady || shared != "window", &key, "windows are shared by fixed groups")
    }
}

impl Config {
    fn check_users(&self, users: &Users, key: &str) -> Result<(), RunError> {
        let Some(record) = &self.users else {
            return Err(RunError::config(key, "expected `users`: what is recorded of them"));
        };
        let weight = |value: f64| value.is_finite() && value >= 0.0;
        ensure(users.group < record.groups.len(), key, "expected one of users.groups")?;
        ensure(!users.destinations.is_empty(), key, "expected at least one destination")?;
        ensure(!users.files.is_empty(), key, "expected at least one kind of file")?;
        for to in &users.destinations {
            ensure(to.path < self.paths.len(), key, "expected one of the paths")?;
            ensure(to.class < record.classes.len(), key, "expected one of users.classes")?;
            ensure(weight(to.weight), key, "expected a weight of at least 0")?;
        }
        for file in &users.files {
            ensure(file.file < record.files.len(), key, "expected one of users.files")?;
            ensure(weight(file.weight), key, "expected a weight of at least 0")?;
            law(&file.size, key)?;
        }
        for surge in &users.surges {
            ensure(weight(surge.factor), key, "expected a factor of at least 0")?;
        }
        for start in &users.starts {
            ensure(weight(start.share), key, "expected a share of at least 0")?;
        }
        law(&users.think, key)?;
        users.patience.as_ref().map_or(Ok(()), |patience| law(patience, key))
    }
}

fn carries_media(transport: &Transport) -> bool {
    let Transport::Other(other) = transport else { return false };
    let transports = dumbbell_transport::registry::list();
    transports.iter().any(|info| info.name == other.transport && info.controllers == "media")
}

fn check_link(link: &crate::config::Link) -> Result<(), RunError> {
    let key = format!("links.{}", link.id);
    match &link.capacity {
        Capacity::Unlimited => {}
        Capacity::Constant { bps, .. } => ensure(*bps > 0, &key, "expected a rate above 0")?,
        Capacity::Trace { ms, mtu } => {
            let ascending = ms.is_sorted() && ms.last().is_some_and(|&last| last > 0);
            ensure(ascending, &key, "expected ascending times that end above 0")?;
            ensure(*mtu > 0, &key, "expected an opportunity of at least 1 byte")?;
        }
    }
    loss(&link.impairments.loss, &key)?;
    probability(link.impairments.duplicate, &key)?;
    let thins = link.impairments.ack_thinning > 1;
    let reorders = link.impairments.reorder.is_some()
        || link.impairments.jitter.is_some_and(|jitter| jitter.reorder);
    ensure(
        !thins || link.impairments.ack_aggregation_ns > 0 && !reorders,
        &key,
        "expected ack_thinning with ack_aggregation and without reordering",
    )?;
    if let Some(reorder) = link.impairments.reorder {
        probability(reorder.probability, &key)?;
    }
    ensure(link.changes.is_sorted_by_key(|change| change.at_ns), &key, "expected ascending times")?;
    for change in &link.changes {
        ensure(change.bps.is_none_or(|bps| bps > 0), &key, "expected a rate above 0")?;
        if let Some(law) = &change.loss {
            loss(law, &key)?;
        }
        let constant = matches!(link.capacity, Capacity::Constant { .. });
        ensure(change.bps.is_none() || constant, &key, "only a constant rate can change")?;
    }
    Ok(())
}
