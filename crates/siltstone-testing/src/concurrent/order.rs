//! The schedule of the threads: random with few or many switches, or by priorities that drop at some points (PCT,
//! Burckhardt et al., ASPLOS 2010), so that one thread can be delayed at one point while the others do all of their
//! work.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One execution for each seed.
pub(super) struct Order {
    seeds: Range<u64>,
    /// The seed of the running execution.
    current: Arc<AtomicU64>,
    random: fastrand::Rng,
    /// The thread is switched at one of this number of points, on average.
    points_per_change: u32,
    /// The priorities of the threads: the highest runs. Empty if the thread is chosen at random.
    priorities: Option<BTreeMap<usize, i64>>,
    lowest: i64,
}

impl Order {
    pub fn new(seeds: Range<u64>, current: Arc<AtomicU64>) -> Order {
        let random = fastrand::Rng::with_seed(0);
        Order { seeds, current, random, points_per_change: 1, priorities: None, lowest: 0 }
    }

    fn by_priority(&mut self, tasks: &[usize], current: Option<usize>, drop_current: bool) -> Option<usize> {
        let priorities = self.priorities.as_mut()?;
        for task in tasks {
            priorities.entry(*task).or_insert_with(|| self.random.i64(0..1 << 32));
        }
        if let Some(current) = current.filter(|_| drop_current) {
            self.lowest -= 1;
            priorities.insert(current, self.lowest);
        }
        tasks.iter().copied().max_by_key(|task| priorities.get(task).copied().unwrap_or_default())
    }
}

impl Scheduler for Order {
    fn new_execution(&mut self) -> Option<Schedule> {
        let seed = self.seeds.next()?;
        self.current.store(seed, Relaxed);
        self.random = fastrand::Rng::with_seed(seed ^ 0x0C0D_E5EE_D0F0_0001);
        self.priorities = self.random.bool().then(BTreeMap::new);
        self.points_per_change = match self.priorities {
            None => 1 << self.random.u32(0..8),
            Some(_) => 1 << self.random.u32(5..13),
        };
        self.lowest = 0;
        Some(Schedule::new(seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let changes = is_yielding || self.random.u32(0..self.points_per_change) == 0;
        let id = |task: &&Task| task.id();
        if self.priorities.is_some() {
            let tasks: Vec<usize> = runnable.iter().map(|task| usize::from(task.id())).collect();
            let chosen = self.by_priority(&tasks, current.map(usize::from), changes)?;
            return runnable.iter().map(id).find(|task| usize::from(*task) == chosen);
        }
        if !changes && let Some(current) = runnable.iter().map(id).find(|task| Some(*task) == current) {
            return Some(current);
        }
        let others = runnable.iter().map(id).filter(|task| Some(*task) != current || runnable.len() == 1);
        others.clone().nth(self.random.usize(..others.count().max(1)))
    }

    fn next_u64(&mut self) -> u64 {
        self.random.u64(..)
    }
}
