//! Ranks that are threads of the test: each pair has a channel in either direction.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use riemannian_laplace::Error;
use riemannian_laplace::internals::team::{Counts, Ranks, Team, TeamError};

#[derive(Debug)]
struct Thread {
    rank: usize,
    size: usize,
    to: BTreeMap<usize, Mutex<Sender<Vec<u8>>>>,
    from: BTreeMap<usize, Mutex<Receiver<Vec<u8>>>>,
}

impl Ranks for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<(), Error> {
        let channel = self.to.get(&to).ok_or(TeamError::NoSuchRank { rank: to, size: self.size })?;
        let sent = channel.lock().expect("a channel").send(message.to_vec());
        sent.map_err(|_| TeamError::Gone { rank: to }.into())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>, Error> {
        let channel = self.from.get(&from).ok_or(TeamError::NoSuchRank { rank: from, size: self.size })?;
        let received = channel.lock().expect("a channel").recv();
        received.map_err(|_| TeamError::Gone { rank: from }.into())
    }
}

/// Runs the same work on so many ranks; what each returned, and what it counted.
pub fn on_ranks<T: Send>(size: usize, work: impl Fn(Team) -> T + Sync) -> Vec<(T, Counts)> {
    let mut threads: Vec<Thread> =
        (0..size).map(|rank| Thread { rank, size, to: BTreeMap::new(), from: BTreeMap::new() }).collect();
    for one in 0..size {
        for other in (0..size).filter(|other| *other != one) {
            let (sender, receiver) = channel();
            threads[one].to.insert(other, Mutex::new(sender));
            threads[other].from.insert(one, Mutex::new(receiver));
        }
    }
    std::thread::scope(|scope| {
        let run = |thread: Thread| {
            let (team, work) = (Team::new(Arc::new(thread)), &work);
            scope.spawn(move || (work(team.clone()), team.counts()))
        };
        let handles: Vec<_> = threads.into_iter().map(run).collect();
        handles.into_iter().map(|handle| handle.join().expect("a rank")).collect()
    })
}
