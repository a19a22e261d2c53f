//! One posterior, many threads.

use riemannian_laplace::{Contents, Dataset, Error, Laplace, Network, Prediction, Samples};

use crate::common::{Outcome, normal_matrix};
use crate::{Case, STRUCTURES, methods, prediction_bits};

const THREADS: usize = 6;

#[test]
fn posteriors_and_what_they_give_are_shared_and_cloned() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<Laplace>();
    shared::<Prediction>();
    shared::<Samples>();
    shared::<Dataset>();
    shared::<Network>();
}

#[test]
fn many_threads_at_once_predict_the_bits_that_one_predicts() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("posterior.safetensors");
    let inputs = normal_matrix(5, 2, 7);
    for case in [Case::regression(20), Case::classes(15)] {
        for structure in STRUCTURES {
            let fitted = case.fit(structure)?;
            fitted.save(&path, Contents::TrainingData)?;
            let predict = |laplace: &Laplace| -> Result<Vec<Vec<u64>>, Error> {
                methods().iter().map(|method| prediction_bits(&laplace.predict(&inputs, method)?)).collect()
            };
            let alone = predict(&fitted)?;
            // What is computed when first asked for has not been in a posterior that was just read.
            for laplace in [fitted.clone(), Laplace::load(&path)?] {
                let together: Vec<Result<_, Error>> = std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| predict(&laplace))).collect();
                    threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
                });
                for found in together {
                    assert_eq!(found?, alone, "{structure}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_clone_that_is_tuned_leaves_the_original_as_it_was() -> Outcome {
    let inputs = normal_matrix(5, 2, 7);
    for structure in STRUCTURES {
        let laplace = Case::regression(20).fit(structure)?;
        let before = prediction_bits(&laplace.predict(&inputs, &methods()[1])?)?;
        let mut tuned = laplace.clone();
        tuned.optimize(&Default::default())?;
        assert_eq!(prediction_bits(&laplace.predict(&inputs, &methods()[1])?)?, before, "{structure}");
        assert_ne!(prediction_bits(&tuned.predict(&inputs, &methods()[1])?)?, before, "{structure}");
    }
    Ok(())
}
