//! Runs the experiments of items: each once for its counts and several times for its rates, whatever the number of
//! items that it has points for.

use super::{Experiment, Item, Run};
use crate::Result;
use crate::compare::peer;
use crate::conditions::Conditions;
use crate::point::{Pass, Point, Points, Verdict, merged};
use serde::Serialize;
use siltstone_bench::clock::spawn_scoped;
use std::io;
use std::time::{Duration, Instant};

/// The number of runs of an experiment that has rates.
pub const RATE_RUNS: u64 = 3;

/// How experiments are run.
#[derive(Debug)]
pub struct Settings {
    /// The conditions of all of them.
    pub conditions: Conditions,
    /// No experiment begins that would end later.
    pub budget: Option<Duration>,
}

/// What happened to an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It was run.
    Done,
    /// It is not done, for this reason.
    NotDone(&'static str),
    /// It needs stores that are not compiled in.
    NeedsPeers(String),
    /// It would have ended after the budget of time.
    OverBudget,
    /// Its experiment failed.
    Failed(String),
}

/// The outcome of an item.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// The item.
    #[serde(serialize_with = "id_of")]
    pub item: &'static Item,
    /// What happened to it.
    pub state: State,
    /// The verdict, if it was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// The points.
    pub points: Vec<Point>,
    /// Whether gets were served by the drive, the page cache or memory.
    pub served_by: String,
    /// The seconds that the experiment took, which may have been for other items as well.
    pub seconds: f64,
}

fn id_of<S: serde::Serializer>(item: &&'static Item, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(item.id)
}

/// What is reported while experiments run.
pub enum Progress<'a> {
    /// A run of an experiment begins: its number from 1 on, and how many there are.
    Begins(&'static Experiment, u64, u64),
    /// An item has an outcome.
    Ended(&'a Outcome),
}

/// Receives what is reported.
type OnProgress<'a> = &'a mut dyn FnMut(Progress<'_>) -> Result<()>;

/// Runs the experiments of some items, in the order of the items, and reports each outcome when it is known.
///
/// # Errors
/// The user has stopped it, or `on_progress` fails. An experiment that fails is an outcome.
pub fn run(
    items: &[&'static Item],
    settings: &Settings,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let mut outcomes: Vec<Outcome> = Vec::new();
    for item in items {
        if outcomes.iter().any(|outcome| outcome.item.id == item.id) {
            continue;
        }
        let mut finished = match runnable(item) {
            Err(state) => vec![without_points(item, state)],
            Ok(experiment) => {
                let is_of_it =
                    |other: &&&Item| other.experiment().is_some_and(|its| its.name == experiment.name);
                let of_it: Vec<&'static Item> = items.iter().filter(is_of_it).copied().collect();
                let conditions = &settings.conditions;
                let ends = begun.elapsed().as_secs_f64() + conditions.scale * f64::from(experiment.cost_s);
                match settings.budget {
                    Some(budget) if ends > budget.as_secs_f64() => {
                        of_it.iter().map(|item| without_points(item, State::OverBudget)).collect()
                    }
                    _ => run_experiment(experiment, &of_it, conditions, on_progress)?,
                }
            }
        };
        finished.retain(|outcome| runnable(outcome.item).is_ok() || outcome.item.id == item.id);
        for outcome in &finished {
            on_progress(Progress::Ended(outcome))?;
        }
        outcomes.append(&mut finished);
    }
    Ok(outcomes)
}

/// Returns what is run for an item, or why nothing is.
fn runnable(item: &Item) -> Result<&'static Experiment, State> {
    match item.run {
        Run::Model(experiment) | Run::Measured(experiment) => Ok(experiment),
        Run::NotDone(reason) => Err(State::NotDone(reason)),
        Run::Peers { needs, experiment } => {
            let missing: Vec<&str> =
                needs.iter().copied().filter(|name| peer::by_name(name).is_err()).collect();
            match missing.is_empty() {
                true => Ok(experiment),
                false => Err(State::NeedsPeers(missing.join(", "))),
            }
        }
    }
}

fn without_points(item: &'static Item, state: State) -> Outcome {
    Outcome { item, state, verdict: None, points: Vec::new(), served_by: String::new(), seconds: 0.0 }
}

/// Runs in a new thread: a thread keeps a buffer for its next reads, which would be memory of the next experiment.
fn in_own_thread(run: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    std::thread::scope(|scope| {
        let ended = spawn_scoped(scope, run)?.join();
        ended.unwrap_or_else(|_| Err(io::Error::other("the experiment ended in a panic").into()))
    })
}

/// Runs an experiment as often as it needs, and returns the outcomes of its items.
fn run_experiment(
    experiment: &'static Experiment,
    items: &[&'static Item],
    conditions: &Conditions,
    on_progress: OnProgress<'_>,
) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let counts = experiment.counts.then_some(Pass::Counts);
    let rates = (0..if experiment.rates { RATE_RUNS } else { 0 }).map(|_| Pass::Rates);
    let passes: Vec<Pass> = counts.into_iter().chain(rates).collect();
    let mut all = Vec::new();
    let mut state = State::Done;
    for (number, &pass) in passes.iter().enumerate() {
        on_progress(Progress::Begins(experiment, number as u64 + 1, passes.len() as u64))?;
        let mut points = Points::new(pass);
        let outcome = conditions.of_run(pass, number as u64).and_then(|conditions| {
            conditions.check()?;
            let conditions = if experiment.direct { conditions.direct() } else { conditions };
            in_own_thread(|| (experiment.run)(&conditions, &mut points))?;
            points.check()
        });
        match outcome {
            Ok(()) => all.extend(points.into_vec()),
            Err(error) if error.is_stopped() => return Err(error),
            Err(error) => {
                state = State::Failed(error.to_string());
                break;
            }
        }
    }
    let all = merged(all);
    let seconds = begun.elapsed().as_secs_f64();
    let of_item = |item: &&'static Item| {
        let points: Vec<Point> =
            all.iter().filter(|(id, _)| *id == item.id).map(|(_, point)| point.clone()).collect();
        let verdict = (state == State::Done).then(|| item.judged.verdict(&points));
        let served_by = conditions.served_by(experiment.direct).to_owned();
        Outcome { item, state: state.clone(), verdict, points, served_by, seconds }
    };
    Ok(items.iter().map(of_item).collect())
}
