//! Which thread may share its work with the others.
//!
//! There are two ways to use several threads: one sample on each, or all of them on the products of one. In the first,
//! every thread of the pool is busy, and products stay where they are. In the second one thread leads: it hands out parts of
//! a product, does one of them, and goes on. It is a thread of the pool itself, since one from outside would sleep while
//! the pool works, and be woken, twice in every product.
//!
//! At most one thread leads at a time. Where several threads from outside ask for a sample each, the others hand out their
//! parts from where they are: a leader that waits for a part would take up another's whole path meanwhile, and within it
//! the next, one upon the other on its stack.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a thread leads.
static LED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread of the pool leads, and is not at a part that it has handed out itself.
    static LEADS: Cell<bool> = const { Cell::new(false) };
}

/// Whether there are several threads and none of them is busy with something else, so that work may be shared among them.
pub(crate) fn threads_are_free() -> bool {
    rayon::current_num_threads() > 1 && (rayon::current_thread_index().is_none() || LEADS.get())
}

/// Does this work with a thread of the pool in the lead, if they are free and none leads already.
pub(crate) fn lead<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    struct Ended;
    impl Drop for Ended {
        fn drop(&mut self) {
            LED.store(false, Ordering::Release);
        }
    }
    if !threads_are_free() || LED.swap(true, Ordering::Acquire) {
        return work();
    }
    let _ended = Ended;
    rayon::scope(|_| with_lead(true, work))
}

/// Hands out parts of some work: whoever does them, has nothing to hand out.
pub(crate) fn share<R>(work: impl FnOnce() -> R) -> R {
    with_lead(false, work)
}

fn with_lead<R>(leads: bool, work: impl FnOnce() -> R) -> R {
    struct Restored(bool);
    impl Drop for Restored {
        fn drop(&mut self) {
            LEADS.set(self.0);
        }
    }
    let _restored = Restored(LEADS.replace(leads));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leads_shares_and_who_does_a_part_does_not() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        // Inside a pool that is busy with this, nothing is free, and nobody takes the lead.
        assert!(!pool.install(threads_are_free));
        assert!(!pool.install(|| lead(threads_are_free)));
        pool.install(|| {
            with_lead(true, || {
                assert!(threads_are_free());
                let (here, there) = share(|| rayon::join(threads_are_free, threads_are_free));
                assert!(!here && !there && threads_are_free());
            });
            assert!(!threads_are_free());
        });
        // From outside, products are shared where there are several, whoever leads at this moment.
        assert_eq!(lead(threads_are_free), rayon::current_num_threads() > 1);
    }

    #[test]
    fn the_lead_ends_with_the_work_even_if_that_panics() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("threads");
        let after = pool.install(|| {
            let result = std::panic::catch_unwind(|| with_lead(true, || std::panic::resume_unwind(Box::new(()))));
            (result.is_err(), threads_are_free())
        });
        assert_eq!(after, (true, false));
    }
}
