//! Tests that a load test on several ranks sends the same requests, at the same planned instants, as on one machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use fathometer_workload::arrivals::{Arrivals, Profile};
use fathometer_workload::distribution::Law;
use fathometer_workload::plan::{Choice, PageId, Pages, Plan, Script, Sessions, Target, Weights};

use super::super::shared::Shared;
use super::super::{Limit, Options, Share, Users};
use super::arrivals::ArrivalQueue;
use super::population::Population;

const START: Instant = Instant::from_nanos(5_000_000);

/// Returns the ranks of a test, each with its number of event loops.
fn ranks(ranks: u32) -> impl Iterator<Item = (Share, usize)> {
    (0..ranks).map(move |rank| (Share::new(rank, ranks).unwrap(), 1 + rank as usize % 3))
}

/// Creates a test of seven pages.
fn options(choice: Choice, users: Users, share: Share) -> Options {
    let target = Target::get("/", None);
    let plan = Plan {
        targets: vec![target.clone(); 7],
        pages: Pages::single(7),
        choice,
        sessions: Sessions {
            pages: Some(Law::Exponential { mean: 4.0 }),
            off: Some(Law::Exponential { mean: 2.0 }),
        },
        ..Plan::single(target)
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    Options {
        users,
        share,
        seed: Seed(7),
        ..Options::new(address, "server", Arc::new(plan))
    }
}

fn shared(choice: Choice, share: Share) -> Shared {
    Shared::new(&options(choice, Users::closed(10), share)).unwrap()
}

/// Returns the first `most` arrivals of a test as its ranks run them: number, planned instant and page.
fn carried_out(
    arrivals: &Arrivals,
    choice: &Choice,
    count: u32,
    most: u64,
) -> Vec<(u64, Instant, PageId)> {
    let mut all = Vec::new();
    for (share, loops) in ranks(count) {
        let shared = shared(choice.clone(), share);
        for number in 0..loops {
            let (first, stride) = share.of_loop(number, loops);
            let mut queue = ArrivalQueue::new(arrivals, first, stride, START);
            while let Some(arrival) = queue.take().filter(|arrival| arrival.number < most) {
                let page = match shared.script(arrival.number) {
                    Some(script) => script.steps[0].0,
                    None => shared.page(arrival.number),
                };
                all.push((arrival.number, arrival.at, page));
            }
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn every_number_of_ranks_carries_out_the_same_arrivals_at_the_same_instants() {
    let ramp = Profile::ramp(100.0, 5000.0, Duration::from_millis(200)).unwrap();
    let times: Arc<[Duration]> = (0..500u64).map(|n| Duration::from_micros(n * n)).collect();
    let script = |pages: &[u32]| Script {
        steps: pages
            .iter()
            .map(|&page| (PageId(page), Duration::ZERO))
            .collect(),
    };
    for arrivals in [
        Arrivals::constant(Profile::constant(1000.0).unwrap()),
        Arrivals::constant(ramp.clone()),
        Arrivals::poisson(ramp, Seed(7)),
        Arrivals::recorded(times, 2.0).unwrap(),
    ] {
        for choice in [
            Choice::Sequence([3, 1, 4, 1, 5].map(PageId).into()),
            Choice::Weighted(Weights::new([1, 2, 3, 4, 5, 6, 7]).unwrap()),
            Choice::Scripts(vec![script(&[1, 2]), script(&[3]), script(&[4])].into()),
        ] {
            let solo = carried_out(&arrivals, &choice, 1, 500);
            assert_eq!(solo.len(), 500);
            for count in [2, 3, 16] {
                assert_eq!(carried_out(&arrivals, &choice, count, 500), solo);
            }
        }
    }
}

#[test]
fn every_number_of_ranks_has_the_same_users_with_the_same_starts() {
    let interval = Duration::from_millis(50);
    let steps = [
        (Duration::from_secs(1), 40),
        (Duration::from_secs(2), 20),
        (Duration::from_secs(3), 33),
    ];
    let users = |count: u32| {
        let mut all = Vec::new();
        for (share, loops) in ranks(count) {
            for number in 0..loops {
                let (first, stride) = share.of_loop(number, loops);
                let (first, stride) = (first as u32, stride as u32);
                let mut population = Population::new(25, interval, &steps, first, stride);
                let mut starts: Vec<(u32, Vec<Option<Instant>>)> = population
                    .numbers()
                    .map(|user| (user, vec![population.start(user, START)]))
                    .collect();
                let changes: Vec<Instant> = population.changes(START).collect();
                for (step, at) in (0..).zip(changes) {
                    let start = population.change(step, at);
                    for (user, starts) in &mut starts {
                        starts.push(start(*user));
                    }
                }
                all.extend(starts);
            }
        }
        all.sort_unstable();
        all
    };
    let solo = users(1);
    assert_eq!(solo.len(), 40);
    for count in [2, 3, 16] {
        assert_eq!(users(count), solo);
    }
}

#[test]
fn sessions_and_pages_of_closed_loops_are_numbered_through_all_ranks() {
    let choice = Choice::Weighted(Weights::new([1, 2, 3, 4, 5, 6, 7]).unwrap());
    // Sixteen ranks with three sessions and five pages each must equal one rank with 48 sessions and 80 pages.
    let drawn = |count: u32, sessions: u32, pages: u32| {
        let (mut drawn, mut requested) = (Vec::new(), Vec::new());
        for (share, _) in ranks(count) {
            let shared = shared(choice.clone(), share);
            for _ in 0..sessions {
                let session = shared.next_session();
                let pauses = [0, 1, 2].map(|page| shared.pause_after(session, page));
                drawn.push((session, shared.pages_of(session), pauses));
            }
            requested.extend((0..pages).map(|_| shared.next_page()));
        }
        drawn.sort_unstable();
        requested.sort_unstable();
        (drawn, requested)
    };
    assert_eq!(drawn(1, 48, 80), drawn(16, 3, 5));
    assert_eq!(drawn(1, 48, 80), drawn(2, 24, 40));
}

#[test]
fn a_limit_on_exchanges_is_the_same_limit_on_every_number_of_ranks() {
    let arrivals = Arrivals::poisson(Profile::constant(1000.0).unwrap(), Seed(7));
    let open = Users::Open {
        arrivals: arrivals.clone(),
        connections: 16,
    };
    let warm_up = Duration::from_millis(30);
    let before = arrivals
        .schedule()
        .take_while(|&(_, at)| at < warm_up)
        .count() as u64;
    assert!(before > 0);
    for count in [1, 2, 3, 16] {
        let mut sent = Vec::new();
        for (share, _) in ranks(count) {
            let shared = Shared::new(&Options {
                limit: Limit::Exchanges(101),
                warm_up,
                ..options(Choice::Sequence([PageId(0)].into()), open.clone(), share)
            })
            .unwrap();
            let mut queue = ArrivalQueue::new(
                &arrivals,
                share.rank() as usize,
                count as usize,
                Instant::ZERO,
            );
            while let Some(arrival) = queue.take() {
                if arrival.at < Instant::ZERO + warm_up {
                    continue;
                }
                if !shared.take_exchange() {
                    break;
                }
                sent.push(arrival.number);
            }
        }
        sent.sort_unstable();
        assert!(sent.into_iter().eq(before..before + 101), "{count}");
    }
}
