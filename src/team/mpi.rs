//! Ranks that talk by MPI.
//!
//! One thread starts MPI, makes all its calls and ends it: the interface is not asked to support threads, and nothing of
//! it is shared between ours.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use mpi::Threading;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::traits::{Destination, Source};

use super::Ranks;
use crate::error::{Result, TeamError};

/// MPI counts a message's entries by a 32-bit integer, so long messages go in pieces.
const LONGEST_PIECE: usize = 1 << 28;

/// What the thread of MPI is asked to do.
enum Request {
    Send { to: i32, message: Vec<u8>, done: Sender<()> },
    Receive { from: i32, message: Sender<Vec<u8>> },
    Abort { status: i32 },
}

/// The processes that `mpirun` started.
///
/// Dropping it ends MPI, for which all ranks wait; a rank that fails calls [`abort`](Self::abort) instead.
#[derive(Debug)]
pub struct Mpi {
    rank: usize,
    size: usize,
    requests: Mutex<Option<Sender<Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Mpi {
    /// Starts MPI. A process may do so once.
    pub fn start() -> Result<Self> {
        let (requests, received) = channel();
        let (started, place) = channel();
        let thread = std::thread::spawn(move || {
            // Only this thread calls MPI.
            let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else { return };
            let world = universe.world();
            if started.send((world.rank(), world.size())).is_ok() {
                serve(&world, &received);
            }
        });
        let (rank, size) = place.recv().map_err(|_| TeamError::NotStarted)?;
        let count = |number: i32| usize::try_from(number).map_err(|_| TeamError::NotStarted);
        Ok(Self { rank: count(rank)?, size: count(size)?, requests: Mutex::new(Some(requests)), thread: Some(thread) })
    }

    /// Whether a launcher of MPI started this process, by the variables that the common ones set.
    pub fn is_launched() -> bool {
        ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MV2_COMM_WORLD_SIZE"]
            .iter()
            .any(|name| std::env::var_os(name).is_some())
    }

    /// Ends all ranks with this status.
    pub fn abort(&self, status: u8) {
        let _ = self.request(Request::Abort { status: i32::from(status) }, self.rank);
        // The thread does not return from it, and the process ends there.
        std::thread::park();
    }

    fn request(&self, request: Request, rank: usize) -> Result<()> {
        let gone = TeamError::Gone { rank };
        let requests = self.requests.lock().map_err(|_| gone.clone())?;
        requests.as_ref().ok_or(gone.clone())?.send(request).map_err(|_| gone)?;
        Ok(())
    }

    fn checked(&self, rank: usize) -> Result<i32> {
        let no_such = TeamError::NoSuchRank { rank, size: self.size };
        if rank >= self.size {
            return Err(no_such.into());
        }
        Ok(i32::try_from(rank).map_err(|_| no_such)?)
    }
}

impl Ranks for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, message: &[u8]) -> Result<()> {
        let (done, finished) = channel();
        self.request(Request::Send { to: self.checked(to)?, message: message.to_vec(), done }, to)?;
        finished.recv().map_err(|_| TeamError::Gone { rank: to }.into())
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let (message, received) = channel();
        self.request(Request::Receive { from: self.checked(from)?, message }, from)?;
        received.recv().map_err(|_| TeamError::Gone { rank: from }.into())
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if let Ok(requests) = self.requests.get_mut() {
            requests.take();
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Does what is asked until nobody can ask any more.
fn serve(world: &SimpleCommunicator, requests: &Receiver<Request>) {
    for request in requests {
        match request {
            Request::Send { to, message, done } => {
                let other = world.process_at_rank(to);
                other.send(&(message.len() as u64));
                message.chunks(LONGEST_PIECE).for_each(|piece| other.send(piece));
                let _ = done.send(());
            }
            Request::Receive { from, message } => {
                let other = world.process_at_rank(from);
                let (length, _) = other.receive::<u64>();
                let mut bytes = Vec::new();
                while (bytes.len() as u64) < length {
                    bytes.extend(other.receive_vec::<u8>().0);
                }
                let _ = message.send(bytes);
            }
            Request::Abort { status } => world.abort(status),
        }
    }
}
