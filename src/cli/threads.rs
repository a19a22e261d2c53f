//! The threads that share the work.

use riemannian_laplace::internals::{linalg, memory};

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
    if memory::is_address_space_limited() {
        // What each thread keeps is taken now, before any memory is promised to the work: an allocation that fails later
        // would abort the program.
        let threads = rayon::current_num_threads() + 1;
        let what = format!("linear algebra on {threads} threads");
        memory::check(&what, (threads as u64 * linalg::KEPT_BY_PRODUCTS / 8) as f64, "use fewer threads")?;
        rayon::broadcast(|_| linalg::warm_up());
        linalg::warm_up();
        memory::count_from_here();
    }
    Ok(())
}
