//! The threads that share the work.

use super::failure::Failure;

/// On a machine with few cores, this many threads are still accepted.
const ALWAYS_ALLOWED: usize = 64;
/// More threads than this per core only wait for each other.
const PER_CORE: usize = 4;

/// Starts the threads: as many as were asked for, otherwise one per core. What cannot be started is an error here, rather
/// than a panic in the middle of the work.
pub fn start(threads: Option<usize>) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let most = (PER_CORE * cores).max(ALWAYS_ALLOWED);
    if let Some(threads) = threads.filter(|threads| *threads > most) {
        return Err(Failure::Usage(format!(
            "--threads {threads}: at most {most} are of any use on this machine, which has {cores} cores"
        )));
    }
    // Zero means one per core.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build_global();
    pool.map_err(|error| {
        Failure::Work(format!(
            "the threads could not be started: {error}; use fewer (--threads 1), or allow more memory"
        ))
    })?;
    // Each thread's allocator takes its share of the address space now, before any memory is promised to the work.
    rayon::broadcast(|_| drop(std::hint::black_box(vec![0_u8; 64])));
    Ok(())
}
