//! The Flow State Exchange of RFC 8699: flows of one group give and take sending rates, so that
//! together they behave as one flow whose rate is split by priority.
//!
//! The active algorithm (section 5.3.1) and the conservative one (section 5.3.2) set the rates of all
//! members whenever one has computed a new rate; the passive one (appendix C) answers only the member
//! that asks. The "simple" algorithm of the authors' first talks is the active one without desired
//! rates; their "updated" one is the conservative one in which a flow's increase counts for 1/N.

use crate::coupling::CouplingInfo;
use crate::{Nanos, ParamInfo, Params};

pub const NAME: &str = "fse";

pub fn info() -> CouplingInfo {
    CouplingInfo {
        name: NAME,
        summary: "flow state exchange: members share the sum of their rates by priority",
        source: "RFC 8699",
        shares: "rate",
        options: vec![
            ParamInfo::choice(
                "algorithm",
                &["active", "conservative", "passive"],
                "conservative",
                "active (RFC 8699 section 5.3.1): one flow's change is the sum's; conservative (section \
                 5.3.2): the sum shrinks by the factor of the flow that backs off; passive (appendix C): \
                 only the flow that asks is answered",
            ),
            ParamInfo::flag(
                "scale_increase",
                false,
                "Conservative only: an increase counts for 1/N of it, so that N members grow as one flow \
                 does. So the authors' talks say; the RFC adds increases in full",
            ),
            ParamInfo::flag(
                "cap_at_desired",
                true,
                "Hold the sum at what all members together desire, where all have a limit. The RFC lets it \
                 drift upwards",
            ),
            ParamInfo::flag(
                "keep_on_leave",
                false,
                "Active and conservative: leave a member's rate in the sum when it leaves, for the others \
                 to take at once. The RFC's text leaves this open",
            ),
            ParamInfo::new(
                "timer_rtts",
                "number",
                2.0,
                (0.0, 1000.0),
                "Conservative only: round trips after a decrease in which the sum stays as it is",
            ),
        ],
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Active,
    Conservative,
    Passive,
}

#[derive(Clone, Copy, Debug)]
pub struct FseOptions {
    pub algorithm: Algorithm,
    pub scale_increase: bool,
    pub cap_at_desired: bool,
    pub keep_on_leave: bool,
    pub timer_rtts: f64,
}

impl FseOptions {
    /// From the checked options of [`info`].
    pub fn new(params: &Params) -> Self {
        Self {
            algorithm: match params.choice("algorithm") {
                "active" => Algorithm::Active,
                "passive" => Algorithm::Passive,
                _ => Algorithm::Conservative,
            },
            scale_increase: params.flag("scale_increase"),
            cap_at_desired: params.flag("cap_at_desired"),
            keep_on_leave: params.flag("keep_on_leave"),
            timer_rtts: params.number("timer_rtts"),
        }
    }
}

/// What a flow brings when it joins. Rates in bits per second.
#[derive(Clone, Copy, Debug)]
pub struct Joining {
    pub priority: f64,
    /// Its rate at present.
    pub rate: f64,
    /// What its application could use, infinity for all.
    pub desired: f64,
}

/// A rate that a member's own control has computed. Rates in bits per second.
#[derive(Clone, Copy, Debug)]
pub struct Update {
    pub rate: f64,
    pub desired: f64,
    pub rtt: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    id: u32,
    /// Negative: has left, for the passive algorithm to forget at its next update.
    priority: f64,
    rate: f64,
    desired: f64,
}

/// One flow group. Members are known by numbers that the caller chooses.
#[derive(Clone, Debug)]
pub struct Fse {
    options: FseOptions,
    members: Vec<Member>,
    /// Sum of the calculated rates, S_CR.
    sum: f64,
    /// Passive: rate left over by flows that desire less than their share, TLO.
    left_over: f64,
    /// Conservative: until when the sum stays as it is.
    hold_until: Nanos,
    shares: Vec<(u32, f64)>,
    order: Vec<usize>,
}

impl Fse {
    pub fn new(options: FseOptions) -> Self {
        Self {
            options,
            members: Vec::new(),
            sum: 0.0,
            left_over: 0.0,
            hold_until: 0,
            shares: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Sum of the calculated rates, bits per second.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The rate that a member has, bits per second.
    pub fn rate(&self, id: u32) -> Option<f64> {
        self.present().find(|member| member.id == id).map(|member| member.rate)
    }

    pub fn priority(&self, id: u32) -> Option<f64> {
        self.present().find(|member| member.id == id).map(|member| member.priority)
    }

    pub fn members(&self) -> usize {
        self.present().count()
    }

    fn present(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.priority > 0.0)
    }

    fn member(&mut self, id: u32) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id && member.priority > 0.0)
    }

    /// A flow joins with its rate at present, which adds to the sum.
    pub fn join(&mut self, id: u32, joining: Joining) {
        if self.rate(id).is_some() {
            self.leave(id);
        }
        self.members.retain(|member| member.id != id);
        let rate = if joining.rate.is_finite() { joining.rate.max(0.0) } else { 0.0 };
        let passive = self.options.algorithm == Algorithm::Passive;
        self.members.push(Member {
            id,
            priority: joining.priority.max(f64::MIN_POSITIVE),
            rate,
            desired: if passive { rate } else { joining.desired },
        });
        self.sum += rate;
    }

    /// A flow stops, pauses, or changes to another group.
    pub fn leave(&mut self, id: u32) {
        if self.options.algorithm == Algorithm::Passive {
            if let Some(member) = self.member(id) {
                member.priority = -1.0;
                member.desired = 0.0;
            }
        } else if let Some(rate) = self.rate(id) {
            self.members.retain(|member| member.id != id);
            if !self.options.keep_on_leave {
                self.sum = (self.sum - rate).max(0.0);
            }
        }
        if self.members() == 0 {
            self.members.clear();
            self.sum = 0.0;
            self.left_over = 0.0;
            self.hold_until = 0;
        }
    }

    /// From the next update on.
    pub fn set_priority(&mut self, id: u32, priority: f64) {
        if let Some(member) = self.member(id) {
            member.priority = priority.max(f64::MIN_POSITIVE);
        }
    }

    /// A member has computed a new rate: the rates that members are to have now, by their numbers. Empty
    /// if the flow is no member, or the rate is none.
    pub fn update(&mut self, now: Nanos, id: u32, update: Update) -> &[(u32, f64)] {
        self.shares.clear();
        let known = self.member(id).is_some();
        if !known || !update.rate.is_finite() || update.rate < 0.0 {
            return &self.shares;
        }
        if self.options.algorithm == Algorithm::Passive {
            self.update_passive(id, update);
        } else {
            self.update_active(now, id, update);
        }
        &self.shares
    }

    fn update_active(&mut self, now: Nanos, id: u32, update: Update) {
        let Some(member) = self.member(id) else { return };
        member.desired = update.desired.max(0.0);
        let before = member.rate;
        let change = update.rate - before;
        if self.options.algorithm == Algorithm::Active {
            self.sum += change;
        } else if now >= self.hold_until {
            if change < 0.0 {
                self.sum *= update.rate / before;
                let hold = update.rtt as f64 * self.options.timer_rtts;
                self.hold_until = now.saturating_add(hold as Nanos);
            } else if self.options.scale_increase {
                self.sum += change / self.members.len() as f64;
            } else {
                self.sum += change;
            }
        }
        if self.options.cap_at_desired {
            // Infinite as soon as one member has no limit.
            self.sum = self.sum.min(self.members.iter().map(|member| member.desired).sum());
        }
        self.sum = self.sum.max(0.0);
        distribute(self.sum, &mut self.members, &mut self.order);
        self.shares.extend(self.members.iter().map(|member| (member.id, member.rate)));
    }

    fn update_passive(&mut self, id: u32, update: Update) {
        let given: f64 = self.members.iter().map(|member| member.rate).sum();
        let desired = update.desired.max(0.0);
        let Some(member) = self.member(id) else { return };
        let change = update.rate - member.rate;
        member.rate = update.rate;
        member.desired = desired.min(update.rate);
        let Member { priority, desired: usable, .. } = *member;
        if change > 0.0 {
            self.sum += change;
        } else if change < 0.0 {
            self.sum = (given + change).max(0.0);
        }
        self.members.retain(|member| member.priority > 0.0);
        let priorities: f64 = self.members.iter().map(|member| member.priority).sum();
        let share = priority / priorities * self.sum;
        if usable < update.rate {
            self.left_over += share - usable;
        }
        let rate = desired.min(share + self.left_over).max(0.0);
        if rate != desired && self.left_over > 0.0 {
            self.left_over = 0.0;
        }
        if let Some(member) = self.member(id) {
            member.desired = member.desired.max(rate);
            member.rate = rate;
        }
        self.shares.push((id, rate));
    }
}

/// Give the members their weighted max-min shares of `total`: as much as they desire to those that
/// desire less than their priority's share of what the others leave, and that share to the others.
fn distribute(total: f64, members: &mut [Member], order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..members.len());
    let level = |member: &Member| member.desired / member.priority;
    order.sort_by(|&a, &b| level(&members[a]).total_cmp(&level(&members[b])));
    let mut left = total;
    let mut priorities: f64 = members.iter().map(|member| member.priority).sum();
    let mut unlimited = 0;
    for &index in order.iter() {
        let member = &mut members[index];
        if left * member.priority < member.desired * priorities {
            break;
        }
        member.rate = member.desired;
        left = (left - member.desired).max(0.0);
        priorities -= member.priority;
        unlimited += 1;
    }
    // Summed anew: the running difference of priorities has lost digits.
    let priorities: f64 = order[unlimited..].iter().map(|&index| members[index].priority).sum();
    for &index in &order[unlimited..] {
        let member = &mut members[index];
        member.rate = left * (member.priority / priorities);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, json};

    use super::*;

    const RTT: Nanos = 100_000_000;
    const ALL: f64 = f64::INFINITY;

    fn options(algorithm: Algorithm) -> FseOptions {
        FseOptions {
            algorithm,
            scale_increase: false,
            cap_at_desired: true,
            keep_on_leave: false,
            timer_rtts: 2.0,
        }
    }

    fn fse(algorithm: Algorithm) -> Fse {
        Fse::new(options(algorithm))
    }

    fn greedy(priority: f64, rate: f64) -> Joining {
        Joining { priority, rate, desired: ALL }
    }

    fn to(rate: f64, desired: f64) -> Update {
        Update { rate, desired, rtt: RTT }
    }

    fn pair(algorithm: Algorithm, rates: (f64, f64)) -> Fse {
        let mut fse = fse(algorithm);
        fse.join(0, greedy(1.0, rates.0));
        fse.join(1, greedy(1.0, rates.1));
        fse
    }

    fn assert_rates(shares: &[(u32, f64)], expected: &[(u32, f64)]) {
        assert_eq!(shares.len(), expected.len(), "{shares:?} for {expected:?}");
        for (share, expected) in shares.iter().zip(expected) {
            assert_eq!(share.0, expected.0);
            assert!((share.1 - expected.1).abs() < 1e-9, "{shares:?} for {expected:?}");
        }
    }

    #[test]
    fn options_come_from_checked_parameters() {
        let given = json!({"algorithm": "passive", "timer_rtts": 3, "scale_increase": true});
        let given: Map<_, _> = given.as_object().unwrap().clone();
        let params = Params::check(NAME, &info().options, &given).unwrap();
        let options = FseOptions::new(&params);
        assert_eq!(options.algorithm, Algorithm::Passive);
        assert!((options.timer_rtts - 3.0).abs() < f64::EPSILON);
        assert!(options.scale_increase && options.cap_at_desired && !options.keep_on_leave);
    }

    /// The authors' explanation of what goes wrong with the active algorithm: two flows of rate X, one
    /// halves, and together they go from 2X to 1.5X.
    #[test]
    fn active_takes_over_one_flows_decrease_only() {
        let mut fse = pair(Algorithm::Active, (8.0, 8.0));
        assert_rates(fse.update(0, 0, to(4.0, ALL)), &[(0, 6.0), (1, 6.0)]);
        assert!((fse.sum() - 12.0).abs() < 1e-12);
    }

    /// And what the conservative one does: 2X to X, as two flows do that both see the loss.
    #[test]
    fn conservative_takes_the_factor_for_all() {
        let mut fse = pair(Algorithm::Conservative, (8.0, 8.0));
        assert_rates(fse.update(0, 0, to(4.0, ALL)), &[(0, 4.0), (1, 4.0)]);
        assert!((fse.sum() - 8.0).abs() < 1e-12);
    }

    /// Within two round trips of the first decrease the other flow's decrease, and increases, leave the
    /// sum alone (RFC 8699 section 5.3.2).
    #[test]
    fn the_timer_holds_the_sum() {
        let mut fse = pair(Algorithm::Conservative, (8.0, 8.0));
        fse.update(0, 0, to(4.0, ALL));
        assert_rates(fse.update(RTT, 1, to(2.0, ALL)), &[(0, 4.0), (1, 4.0)]);
        assert_rates(fse.update(2 * RTT - 1, 0, to(5.0, ALL)), &[(0, 4.0), (1, 4.0)]);
        assert_rates(fse.update(2 * RTT, 0, to(5.0, ALL)), &[(0, 4.5), (1, 4.5)]);
        assert_rates(fse.update(3 * RTT, 1, to(2.25, ALL)), &[(0, 2.25), (1, 2.25)]);
    }

    /// Four flows that each grow by one in a round trip: by four together as the RFC has it, by one as
    /// the authors' talks have it.
    #[test]
    fn increases_count_in_full_or_for_their_part() {
        for (scale_increase, after) in [(false, 14.0), (true, 11.0)] {
            let conservative = options(Algorithm::Conservative);
            let mut fse = Fse::new(FseOptions { scale_increase, ..conservative });
            for id in 0..4 {
                fse.join(id, greedy(1.0, 2.5));
            }
            for id in 0..4 {
                let rate = fse.rate(id).unwrap();
                fse.update(0, id, to(rate + 1.0, ALL));
            }
            assert!((fse.sum() - after).abs() < 1e-9, "{}", fse.sum());
        }
    }

    #[test]
    fn rates_follow_priorities_from_the_next_update() {
        let mut fse = fse(Algorithm::Active);
        fse.join(7, greedy(1.0, 3.0));
        fse.join(9, greedy(0.5, 3.0));
        assert_rates(fse.update(0, 7, to(3.0, ALL)), &[(7, 4.0), (9, 2.0)]);
        fse.set_priority(9, 2.0);
        assert_eq!(fse.rate(9), Some(2.0));
        assert_rates(fse.update(0, 7, to(4.0, ALL)), &[(7, 2.0), (9, 4.0)]);
    }

    /// By hand: of 12, a flow that desires 2 gets it, and the others share 10 by 1 : 3.
    #[test]
    fn what_one_does_not_desire_goes_to_the_others() {
        let mut fse = fse(Algorithm::Active);
        fse.join(0, greedy(1.0, 4.0));
        fse.join(1, greedy(1.0, 4.0));
        fse.join(2, greedy(3.0, 4.0));
        assert_rates(fse.update(0, 0, to(4.0, 2.0)), &[(0, 2.0), (1, 2.5), (2, 7.5)]);
        assert!((fse.sum() - 12.0).abs() < 1e-12);
    }

    #[test]
    fn the_sum_is_capped_where_all_are_limited() {
        for (cap_at_desired, sum) in [(true, 5.0), (false, 16.0)] {
            let mut fse = Fse::new(FseOptions { cap_at_desired, ..options(Algorithm::Active) });
            fse.join(0, greedy(1.0, 8.0));
            fse.join(1, Joining { priority: 1.0, rate: 8.0, desired: 3.0 });
            assert_rates(fse.update(0, 0, to(8.0, 2.0)), &[(0, 2.0), (1, 3.0)]);
            assert!((fse.sum() - sum).abs() < 1e-12);
        }
    }

    #[test]
    fn a_leaving_flow_takes_its_rate_along_or_leaves_it() {
        for (keep_on_leave, rate) in [(false, 6.0), (true, 12.0)] {
            let mut fse = Fse::new(FseOptions { keep_on_leave, ..options(Algorithm::Active) });
            fse.join(0, greedy(1.0, 6.0));
            fse.join(1, greedy(1.0, 6.0));
            fse.leave(1);
            assert_eq!((fse.members(), fse.rate(1)), (1, None));
            assert!(fse.update(0, 1, to(9.0, ALL)).is_empty());
            assert_rates(fse.update(0, 0, to(6.0, ALL)), &[(0, rate)]);
            fse.join(1, greedy(1.0, 2.0));
            let half = (rate + 2.0) / 2.0;
            assert_rates(fse.update(0, 0, to(rate, ALL)), &[(0, half), (1, half)]);
            fse.leave(0);
            fse.leave(1);
            assert!(fse.sum().abs() < 1e-12);
        }
    }

    /// The RFC's example (appendix C.1) of a link of 10: a flow of priority 1 and one of 0.5; the second
    /// has just begun; then the first becomes limited by its application to 2, and the second takes over
    /// what it leaves.
    #[test]
    fn passive_does_as_in_the_example() {
        let mut fse = fse(Algorithm::Passive);
        fse.join(1, greedy(1.0, 10.0));
        fse.join(2, greedy(0.5, 1.0));
        assert!((fse.sum() - 11.0).abs() < 1e-9);
        let third = 1.0 / 3.0;
        let steps = [
            (1, to(8.0, ALL), 9.0, 0.0, 6.0),
            (2, to(2.0, ALL), 10.0, 0.0, 3.0 + third),
            (1, to(7.0, 2.0), 11.0, 5.0 + third, 2.0),
            (2, to(4.0 + third, ALL), 12.0, 0.0, 9.0 + third),
        ];
        for (id, update, sum, left_over, rate) in steps {
            assert_rates(fse.update(0, id, update), &[(id, rate)]);
            assert!((fse.sum() - sum).abs() < 1e-9, "{} for {sum}", fse.sum());
            assert!((fse.left_over - left_over).abs() < 1e-9, "{} for {left_over}", fse.left_over);
        }
    }

    /// A passive member that has left counts until another asks, and not after.
    #[test]
    fn passive_forgets_at_the_next_update() {
        let mut fse = pair(Algorithm::Passive, (6.0, 6.0));
        fse.leave(1);
        assert_eq!((fse.members(), fse.members.len()), (1, 2));
        assert_rates(fse.update(0, 0, to(6.0, ALL)), &[(0, 12.0)]);
        assert_eq!(fse.members.len(), 1);
    }

    /// The loop as RFC 8699 section 5.3.1 step (c) has it. Its end condition is exact there; rounding
    /// would let it run forever.
    fn loop_of_the_rfc(total: f64, flows: &[(f64, f64)]) -> Vec<f64> {
        let mut rates = vec![0.0; flows.len()];
        let (mut left, mut assigned) = (total, 0.0);
        let mut priorities: f64 = flows.iter().map(|flow| flow.0).sum();
        while left - assigned > 1e-9 * total && priorities > 1e-9 {
            assigned = 0.0;
            for (rate, &(priority, desired)) in rates.iter_mut().zip(flows) {
                if *rate < desired {
                    let share = left * priority / priorities;
                    if share >= desired {
                        left -= desired;
                        *rate = desired;
                        priorities -= priority;
                    } else {
                        *rate = share;
                        assigned += share;
                    }
                }
            }
        }
        rates
    }

    fn flows() -> impl Strategy<Value = Vec<(f64, f64)>> {
        let desired = prop_oneof![Just(ALL), 0.0..20e6];
        prop::collection::vec((0.1..10.0, desired), 1..12)
    }

    proptest! {
        #[test]
        fn distribution_is_that_of_the_rfc(flows in flows(), total in 1e3..50e6) {
            let mut members: Vec<Member> = flows
                .iter()
                .zip(0..)
                .map(|(&(priority, desired), id)| Member { id, priority, rate: 0.0, desired })
                .collect();
            distribute(total, &mut members, &mut Vec::new());
            for (member, expected) in members.iter().zip(loop_of_the_rfc(total, &flows)) {
                prop_assert!(
                    (member.rate - expected).abs() <= 1e-6 * total,
                    "{} for {expected}", member.rate
                );
            }
        }

        /// Max-min: whoever has less than it desires has the largest rate for its priority, and nothing
        /// is left over unless all are content.
        #[test]
        fn distribution_is_max_min(flows in flows(), total in 1e3..50e6) {
            let mut members: Vec<Member> = flows
                .iter()
                .zip(0..)
                .map(|(&(priority, desired), id)| Member { id, priority, rate: 0.0, desired })
                .collect();
            distribute(total, &mut members, &mut Vec::new());
            let most = members.iter().map(|m| m.rate / m.priority).fold(0.0, f64::max);
            for m in &members {
                prop_assert!(m.rate <= m.desired);
                prop_assert!(m.rate == m.desired || m.rate / m.priority >= most * (1.0 - 1e-9));
            }
            let given: f64 = members.iter().map(|m| m.rate).sum();
            let wanted: f64 = members.iter().map(|m| m.desired).sum();
            prop_assert!((given - total.min(wanted)).abs() <= 1e-9 * total);
        }

        /// Whatever members do, active and conservative give no more than the sum that their controls
        /// asked for, and flows alike get alike.
        #[test]
        fn never_more_than_asked_for(
            conservative: bool,
            scale_increase: bool,
            keep_on_leave: bool,
            events in prop::collection::vec((0_u32..6, 0_u8..8, 0.0..10e6, 0_u64..RTT), 1..60),
        ) {
            let algorithm =
                if conservative { Algorithm::Conservative } else { Algorithm::Active };
            let mut fse = Fse::new(FseOptions { scale_increase, keep_on_leave, ..options(algorithm) });
            let mut now = 0;
            for (id, what, rate, later) in events {
                now += later;
                match what {
                    0 => fse.leave(id),
                    1 => fse.join(id, greedy(1.0, rate)),
                    2 => fse.set_priority(id, 1.0),
                    _ => {
                        let desired = if what == 3 { rate } else { ALL };
                        let shares = fse.update(now, id, to(rate, desired)).to_vec();
                        let given: f64 = shares.iter().map(|share| share.1).sum();
                        prop_assert!(given <= fse.sum() * (1.0 + 1e-12));
                        if shares.is_empty() {
                            continue;
                        }
                        let greedy: Vec<f64> = fse
                            .members
                            .iter()
                            .filter(|member| member.desired == ALL)
                            .map(|member| member.rate)
                            .collect();
                        for rate in &greedy {
                            prop_assert!((rate - greedy[0]).abs() <= 1e-9 * greedy[0]);
                        }
                    }
                }
            }
        }

        /// Absurd values do no harm.
        #[test]
        fn rates_stay_numbers(
            passive: bool,
            updates in prop::collection::vec(
                (0_u32..3, prop::num::f64::ANY, prop::num::f64::ANY, any::<u64>(), any::<u64>()),
                1..40,
            ),
        ) {
            let algorithm = if passive { Algorithm::Passive } else { Algorithm::Conservative };
            let mut fse = fse(algorithm);
            for id in 0..3 {
                fse.join(id, greedy(1.0, 1e6));
            }
            for (id, rate, desired, now, rtt) in updates {
                let rate = if rate.abs() > 1e200 { 1e200 } else { rate };
                for &(_, share) in fse.update(now, id, Update { rate, desired, rtt }) {
                    prop_assert!(share >= 0.0 && share.is_finite(), "{share}");
                }
            }
        }
    }
}
