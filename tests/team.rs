//! Ranks that share the data: the same bytes on any number of them, and each with its share of the work.

#[path = "team/threads.rs"]
mod threads;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::{Array2, ArrayView1};
use riemannian_laplace::internals::data::{CsvStream, Impute, StreamColumns, Table, TableOptions, row_blocks};
use riemannian_laplace::internals::evaluate::{
    Curves, Detail, KeepUncertainty, ScoringOptions, TrainingFit, expected_calibration_error, score_over,
    uncertainty_over,
};
use riemannian_laplace::internals::geodesic::{MetricBatch, MetricOptions, MetricSolver};
use riemannian_laplace::internals::laplace::FitPart;
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::internals::team::{Shard, Sums, Team};
use riemannian_laplace::{
    Activation, Architecture, Batches, Contents, Dataset, Draws, Error, EvidenceOptions, Family, FitOptions, Laplace,
    Method, MetricName, Model, Network, SamplerOptions, Samples, Scaling, Scores, Standardize, Structure, Weights,
};
use threads::on_ranks;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path
}

/// Two inputs and a target, as numbers.
fn regression(rows: usize) -> String {
    let mut text = "a,b,y\n".to_string();
    for row in 0..rows {
        let (a, b) = ((0.37 * row as f64).sin(), (0.11 * row as f64).cos());
        writeln!(text, "{a},{b},{}", a * b + 0.1 * (row as f64).sin()).expect("a line");
    }
    text
}

/// Words with separators and line breaks in them, an unused column, and rows with empty cells; and lines that end as on
/// Windows.
fn labelled(rows: usize) -> String {
    let mut text = "a;note;\"the\nlabel\";b\r\n".to_string();
    for row in 0..rows {
        let label = ["\"no;\nreally\"", "yes", "\"may \"\"be\"\"\n\n\""][row % 3];
        let a = if row % 7 == 3 { String::new() } else { format!("{}", 0.1 * (row % 17) as f64) };
        write!(text, "{a};\"a\nnote, {row}\n\";{label};{}\r\n", (row as f64).sqrt()).expect("a line");
    }
    text
}

/// Words, dates and yes and no as inputs, some of them missing.
fn raw(rows: usize) -> String {
    let mut text = "kind,day,fed,x,y\n".to_string();
    for row in 0..rows {
        let kind = ["fox", "owl", "", "bear"][row % 4];
        let fed = if row % 3 == 0 { "yes" } else { "no" };
        writeln!(text, "{kind},2020-01-{:02},{fed},{},{row}", row % 28 + 1, row % 13).expect("a line");
    }
    text
}

fn network(sizes: &[usize], seed: u64) -> Arc<dyn Model> {
    Arc::new(Network::random(Architecture::new(sizes, Activation::Tanh).expect("an architecture"), seed))
}

fn open(path: &Path, team: Team) -> Result<CsvStream, Error> {
    CsvStream::open(path, &TableOptions::default(), StreamColumns::Targets(vec!["y".to_string()]), team)
}

/// The bytes of a posterior's file.
fn bytes(laplace: &Laplace, contents: Contents) -> Vec<u8> {
    let folder = folder();
    let path = folder.path().join("posterior");
    laplace.save(&path, contents).expect("a saved posterior");
    std::fs::read(path).expect("bytes")
}

#[test]
fn a_sum_of_parts_is_the_same_to_the_last_bit_on_any_number_of_ranks() {
    let part = |index: usize| vec![(index as f64).sin() * 10_f64.powi(index as i32 % 7), 1.0];
    for count in [0, 1, 5, 12, 13] {
        let sum = |team: &Team| team.fold(&Sums, team.share(count).map(|index| Ok(part(index)))).expect("a sum");
        let alone = sum(&Team::alone());
        assert_eq!(alone.is_some(), count > 0);
        for size in 1..=5 {
            let ranks = on_ranks(size, |team| sum(&team));
            for (found, counts) in &ranks {
                assert_eq!(found, &alone, "{count} parts on {size} ranks");
                assert!(counts.messages <= 2);
            }
            let sent: u64 = ranks.iter().map(|(_, counts)| counts.messages).sum();
            assert_eq!(sent, 2 * (size as u64 - 1));
        }
    }
}

#[test]
fn messages_of_all_ranks_reach_all_or_the_first_in_order() {
    for size in 1..=5 {
        let expected: Vec<Vec<u8>> = (0..size).map(|rank| vec![rank as u8; rank]).collect();
        for (rank, (all, _)) in
            on_ranks(size, |team| team.share_all(vec![team.rank() as u8; team.rank()])).into_iter().enumerate()
        {
            assert_eq!(all.expect("messages"), expected, "rank {rank} of {size}");
        }
        let gathered = on_ranks(size, |team| team.gather(vec![team.rank() as u8; team.rank()]).expect("messages"));
        assert_eq!(gathered[0].0.as_ref(), Some(&expected));
        assert!(gathered[1..].iter().all(|(other, _)| other.is_none()));
    }
}

#[test]
fn a_streamed_file_is_the_file_in_memory() -> Result<(), Error> {
    let folder = folder();
    // More rows than two marks of the index.
    let long = write(folder.path(), "long.csv", &regression(9001));
    let words = write(folder.path(), "words.csv", &labelled(500));
    let mixed = write(folder.path(), "mixed.csv", &raw(5000));
    let dropping = TableOptions { drop_missing: true, ..Default::default() };
    let imputing = TableOptions { impute: Some(Impute::Indicator), ..Default::default() };
    let targets = vec!["the\nlabel".to_string()];
    let options = TableOptions { ignore: vec!["note".to_string()], drop_missing: true, ..Default::default() };
    let cases = [
        (&long, TableOptions::default(), StreamColumns::Targets(vec!["y".to_string()])),
        (&words, options, StreamColumns::Labels(targets)),
        (&mixed, dropping, StreamColumns::Targets(vec!["y".to_string()])),
        (&mixed, imputing, StreamColumns::Targets(vec!["y".to_string()])),
    ];
    for (path, options, columns) in cases {
        let table = match &columns {
            StreamColumns::Targets(targets) => Table::read_with(path, &options.for_targets(targets))?,
            _ => Table::read_with(path, &options)?,
        };
        let whole = match &columns {
            StreamColumns::Labels(targets) => table.labelled_dataset(targets)?,
            StreamColumns::Targets(targets) => table.dataset(targets)?,
            StreamColumns::Schema(schema) | StreamColumns::Inputs(schema) => table.dataset_for(schema)?,
        };
        for size in 1..=4 {
            for (stream, _) in
                on_ranks(size, |team| CsvStream::open(path, &options, columns.clone(), team).expect("a stream"))
            {
                assert_eq!(stream.n_rows(), whole.len(), "{} on {size} ranks", path.display());
                assert_eq!(stream.schema(), whole.schema());
                assert_eq!(stream.n_dropped(), table.n_dropped());
                assert_eq!(stream.read_all()?, whole);
                for rows in row_blocks(stream.n_rows()).into_iter().chain([4000..4200, 7..7]) {
                    let rows = rows.start.min(whole.len())..rows.end.min(whole.len());
                    let mut next = rows.start;
                    for batch in stream.batches(rows.clone(), 97)? {
                        let batch = batch?;
                        let expected = whole.select(&batch.rows().collect::<Vec<_>>())?;
                        assert_eq!(batch.first_row, next);
                        assert_eq!(
                            (&batch.inputs, &batch.targets),
                            (&expected.inputs().into(), &expected.targets().into())
                        );
                        next = batch.rows().end;
                    }
                    assert_eq!(next, rows.end);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn every_structure_that_is_a_sum_has_the_same_bytes_on_any_number_of_ranks() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(700));
    let whole = Table::read(&path)?.dataset(&["y".to_string()])?;
    let network = network(&[2, 6, 1], 3);
    let last_layer = Weights::LastLayer.restrict(&network)?;
    for (model, structure) in [
        (&network, Structure::WeightSpace),
        (&network, Structure::Kronecker),
        (&network, Structure::Diagonal),
        (&last_layer, Structure::WeightSpace),
        (&last_layer, Structure::Kronecker),
    ] {
        let options = FitOptions { structure, ..Default::default() };
        let finish = |mut laplace: Laplace| -> Result<Vec<u8>, Error> {
            laplace.optimize(&EvidenceOptions::default())?;
            Ok(bytes(&laplace, Contents::Curvature))
        };
        let alone = finish(Laplace::fit_shared(model.clone(), whole.clone(), Family::gaussian(0.3)?, &options)?)?;
        for size in 1..=4 {
            let fit = |team: Team| -> Result<(Vec<u8>, usize), Error> {
                let data = open(&path, team)?;
                let laplace = Laplace::fit_batches(model.clone(), &data, Family::gaussian(0.3)?, &options)?;
                let sums = laplace.n_data();
                Ok((finish(laplace)?, sums))
            };
            for (found, _) in on_ranks(size, fit) {
                let (found, n_data) = found?;
                assert_eq!(n_data, 700);
                assert!(found == alone, "{structure} on {size} ranks");
            }
        }
    }
    Ok(())
}

#[test]
fn function_space_which_is_no_sum_is_made_on_every_rank() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(40));
    let network = network(&[2, 30, 1], 3);
    let options = FitOptions { structure: Structure::FunctionSpace, ..Default::default() };
    let fit = |team: Team| -> Result<Vec<u8>, Error> {
        let data = open(&path, team)?;
        let mut laplace = Laplace::fit_batches(network.clone(), &data, Family::gaussian(0.3)?, &options)?;
        laplace.keep_data(data.read_all()?)?;
        Ok(bytes(&laplace, Contents::TrainingData))
    };
    let alone = fit(Team::alone())?;
    for (found, _) in on_ranks(3, fit) {
        assert!(found? == alone);
    }
    Ok(())
}

#[test]
fn scaling_and_the_fit_to_the_data_are_the_same_on_any_number_of_ranks_and_right() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(1000));
    let network = network(&[2, 4, 1], 1);
    let work = |team: Team| -> Result<(Scaling, TrainingFit), Error> {
        let data = open(&path, team)?;
        let scaling = Scaling::over(&data, Standardize::InputsAndTargets)?;
        let data = data.scaled_by(scaling.clone())?;
        let laplace = Laplace::fit_batches(network.clone(), &data, Family::gaussian(0.3)?, &FitOptions::default())?;
        Ok((scaling, TrainingFit::over(&laplace, &data)?))
    };
    let alone = work(Team::alone())?;
    for size in 2..=4 {
        for (found, _) in on_ranks(size, work) {
            assert_eq!(found?, alone);
        }
    }
    // The definitions, over all rows at once.
    let data = Table::read(&path)?.dataset(&["y".to_string()])?;
    let column = data.inputs().column(0);
    let mean = column.mean().expect("rows");
    let deviation = column.mapv(|value| (value - mean).powi(2)).mean().expect("rows").sqrt();
    assert!((alone.0.inputs.mean()[0] - mean).abs() < 1e-14);
    assert!((alone.0.inputs.scale()[0] - deviation).abs() < 1e-14);
    Ok(())
}

#[test]
fn each_rank_sums_over_its_share_of_the_rows_and_sends_the_sum_at_most_twice() -> Result<(), Error> {
    let folder = folder();
    let rows = 1200;
    let path = write(folder.path(), "data.csv", &regression(rows));
    let network = network(&[2, 6, 1], 3);
    let d = network.n_params();
    for size in [2, 3, 4] {
        let work = |team: Team| -> Result<u64, Error> {
            let data = open(&path, team.clone())?;
            let before = team.counts().bytes;
            let options = FitOptions { structure: Structure::WeightSpace, ..Default::default() };
            Laplace::fit_batches(network.clone(), &data, Family::gaussian(0.3)?, &options)?;
            Ok(team.counts().bytes - before)
        };
        let ranks = on_ranks(size, work);
        for (rank, (sent, counts)) in ranks.into_iter().enumerate() {
            assert_eq!(counts.rows, (rows / size) as u64, "rank {rank} of {size}");
            // A packed triangle, one squared error and the weight of the rows; the count of tensors, and for each its name and
            // shape.
            let message = 8 * (d * (d + 1) / 2 + 2) as u64 + 8 + (8 + 1 + 8 + 8) + (8 + 15 + 8 + 8);
            let times = if rank == size - 2 || rank == size - 1 { 1 } else { 2 };
            assert_eq!(sent?, times * message, "rank {rank} of {size}");
        }
    }
    Ok(())
}

#[test]
fn parts_made_in_turn_reach_the_first_rank_in_order() -> Result<(), Error> {
    for size in 1..=5 {
        let work = |team: Team| -> Result<(Vec<usize>, Vec<u8>), Error> {
            let (mut made, mut taken) = (Vec::new(), Vec::new());
            team.in_turn::<Error>(
                7,
                |part| {
                    made.push(part);
                    Ok(vec![part as u8; part])
                },
                |message| {
                    taken.extend(message);
                    Ok(())
                },
            )?;
            Ok((made, taken))
        };
        let expected: Vec<u8> = (0..7).flat_map(|part| vec![part as u8; part]).collect();
        for (rank, (found, counts)) in on_ranks(size, work).into_iter().enumerate() {
            let (made, taken) = found?;
            assert!(made.iter().copied().eq((rank..7).step_by(size)), "{rank} of {size}: {made:?}");
            assert_eq!(taken, if rank == 0 { expected.clone() } else { Vec::new() });
            assert_eq!(counts.messages, if rank == 0 { 0 } else { made.len() as u64 });
        }
    }
    Ok(())
}

#[test]
fn without_a_matrix_ranks_make_each_product_together_and_the_posterior_is_that_of_one() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(301));
    let columns = |names: &[&str]| StreamColumns::Targets(names.iter().map(ToString::to_string).collect());
    // One noise level, and one per output, whose gradient takes sums of its own; both have more weights than are traced.
    let cases: [(&[&str], Arc<dyn Model>, Family); 2] = [
        (&["y"], network(&[2, 16, 1], 1), Family::gaussian(0.3)?),
        (&["b", "y"], network(&[1, 16, 2], 2), Family::gaussian_per_output(&[0.3, 0.4])?),
    ];
    // A few steps of tuning take as many kinds of products as all would.
    let steps = EvidenceOptions { max_iterations: 1, ..Default::default() };
    for (targets, model, family) in cases {
        let fit = |team: Team| {
            let data = CsvStream::open(&path, &TableOptions::default(), columns(targets), team.clone())?;
            let options = FitOptions { structure: Structure::MATRIX_FREE, ..Default::default() };
            let mut laplace = Laplace::fit_batches(model.clone(), &data, family.clone(), &options)?;
            laplace.optimize(&steps)?;
            let fit = TrainingFit::over(&laplace, &data)?;
            laplace.settle()?;
            let products = laplace.precision().estimates().map(|estimates| estimates.products);
            if !team.is_first() {
                return Ok::<_, Error>((None, products, fit));
            }
            laplace.keep_data(data.read_all()?)?;
            let inputs = Array2::from_shape_fn((3, model.n_inputs()), |(n, _)| n as f64 - 1.0);
            let bytes = bytes(&laplace, Contents::TrainingData);
            // Alone from here: what needs further products has its own data, and the same answers.
            Ok((Some((bytes, laplace.linearized_joint(&inputs)?)), products, fit))
        };
        let alone = fit(Team::alone())?;
        let in_memory = {
            let data = CsvStream::open(&path, &TableOptions::default(), columns(targets), Team::alone())?.read_all()?;
            let options = FitOptions { structure: Structure::MATRIX_FREE, ..Default::default() };
            let mut laplace = Laplace::fit_shared(model.clone(), data, family.clone(), &options)?;
            laplace.optimize(&steps)?;
            let _ = TrainingFit::of(&laplace)?;
            bytes(&laplace, Contents::TrainingData)
        };
        assert!(alone.0.as_ref().is_some_and(|(bytes, _)| *bytes == in_memory));
        let blocks = row_blocks(301);
        for size in if targets.len() == 1 { 2..=4 } else { 3..=3 } {
            let ranks = on_ranks(size, fit);
            let rows: Vec<u64> = ranks.iter().map(|(_, counts)| counts.rows).collect();
            for (rank, (found, counts)) in ranks.into_iter().enumerate() {
                let (posterior, products, fit) = found?;
                assert_eq!((products, fit), (alone.1, alone.2.clone()), "rank {rank} of {size}");
                assert_eq!(posterior.is_some(), rank == 0);
                if let Some(posterior) = posterior {
                    assert!(Some(&posterior) == alone.0.as_ref(), "{size} ranks");
                }
                // Every rank has gone through its own rows as often as any other through its.
                let own = |rank: usize| {
                    let share = rank * blocks.len() / size..(rank + 1) * blocks.len() / size;
                    blocks[share].iter().map(|block| block.len() as u64).sum::<u64>()
                };
                assert_eq!(counts.rows * own(0), rows[0] * own(rank), "rank {rank} of {size}");
                assert!(counts.messages > 0 && counts.bytes > 8 * model.n_params() as u64);
            }
        }
    }
    Ok(())
}

#[test]
fn scores_on_ranks_are_those_of_one_and_of_all_rows_at_once() -> Result<(), Error> {
    let folder = folder();
    let (few, path) =
        (write(folder.path(), "few.csv", &regression(80)), write(folder.path(), "data.csv", &regression(13_000)));
    let train = Table::read(&few)?.dataset(&["y".to_string()])?;
    let laplace = Laplace::fit_shared(network(&[2, 4, 1], 1), train, Family::gaussian(0.3)?, &FitOptions::default())?;
    let methods = [Method::Map, Method::default(), Method::Nn(Draws::first(5, 1))];
    let options = ScoringOptions { detail: Detail::Curves, uncertainty: KeepUncertainty::Yes };
    let score = |team: Team| {
        let data = open(&path, team)?;
        let scored = score_over(&laplace, &data, &methods, options, &())?;
        Ok::<_, Error>((scored, uncertainty_over(&laplace, &data, &methods[..2], &())?))
    };
    let (alone, far) = score(Team::alone())?;
    let alone = alone.expect("the first rank");
    assert!(
        far.as_ref()
            .is_some_and(|far| far.iter().zip(&alone).all(|(far, scored)| Some(far) == scored.uncertainty.as_ref()))
    );
    // By the definitions, over all rows at once; sums in another order differ by rounding, counts do not.
    let data = Table::read(&path)?.dataset(&["y".to_string()])?;
    for (method, scored) in methods.iter().zip(&alone) {
        let prediction = laplace.predict(data.inputs(), method)?;
        let errors = &prediction.mean - data.targets();
        let mse = errors.mapv(|error| error * error).mean().expect("rows");
        let nll = -prediction.log_densities(data.targets())?.mean().expect("rows");
        let (lower, upper) = prediction.interval(0.9)?;
        let inside = data.targets().iter().zip(lower.iter().zip(&upper)).filter(|(y, (l, u))| *l <= *y && *y <= *u);
        let coverage = inside.count() as f64 / 13_000.0;
        let Scores::Regression(scores) = scored.tally.scores()? else { panic!("not a regression") };
        assert!((scores.mse / mse - 1.0).abs() < 1e-12 && (scores.nll / nll - 1.0).abs() < 1e-12);
        assert_eq!((scores.n, scores.coverage_90), (13_000, coverage));
        let uncertainty = scored.uncertainty.as_ref().expect("kept");
        assert_eq!(uncertainty.total, prediction.uncertainty().to_vec());
        let epistemic = prediction.epistemic_variance.column(0).to_vec();
        assert_eq!(uncertainty.epistemic, (!matches!(method, Method::Map)).then_some(epistemic));
        assert_eq!(uncertainty.logits, None);
        let Curves::Intervals { intervals, pit_histogram } = scored.tally.curves() else { panic!("not intervals") };
        assert!(intervals.iter().any(|one| one.level == 0.9 && one.coverage == coverage));
        assert_eq!(pit_histogram.iter().sum::<usize>(), 13_000);
    }
    for size in 2..=4 {
        for (rank, (found, counts)) in on_ranks(size, score).into_iter().enumerate() {
            let (scored, far_off) = found?;
            match rank {
                0 => assert_eq!((scored.as_ref(), &far_off), (Some(&alone), &far), "{size} ranks"),
                _ => assert!(scored.is_none() && far_off.is_none()),
            }
            // Pieces rank, rank + size, … of 4,096, 4,096, 4,096 and 712 rows, twice.
            let rows: u64 = (rank..4).step_by(size).map(|piece| if piece < 3 { 4096 } else { 712 }).sum();
            assert_eq!(counts.rows, 2 * rows, "rank {rank} of {size}");
        }
    }
    Ok(())
}

#[test]
fn classes_are_scored_by_parts_as_by_all_rows_at_once() -> Result<(), Error> {
    let inputs = Array2::from_shape_fn((9000, 2), |(row, column)| (0.1 * (row * (column + 1)) as f64).sin());
    let labels = Array2::from_shape_fn((9000, 1), |(row, _)| (row % 3) as f64);
    let data = Dataset::new(inputs, labels)?;
    let few = data.select(&(0..60).collect::<Vec<_>>())?;
    let laplace = Laplace::fit_shared(network(&[2, 4, 3], 1), few, Family::new(Categorical), &FitOptions::default())?;
    let options = ScoringOptions { detail: Detail::Curves, ..Default::default() };
    let scored = score_over(&laplace, &data, &[Method::default()], options, &())?.expect("the first rank");
    let prediction = laplace.predict(data.inputs(), &Method::default())?;
    let best = |row: ArrayView1<'_, f64>| (0..3).fold(0, |best, k| if row[k] > row[best] { k } else { best });
    let (mut hits, mut brier, mut confidences, mut correct) = (0, 0.0, Vec::new(), Vec::new());
    for (row, y) in prediction.mean.rows().into_iter().zip(data.targets()) {
        let class = best(row);
        hits += usize::from(class == *y as usize);
        brier += row.iter().enumerate().map(|(k, p)| (p - f64::from(u8::from(k == *y as usize))).powi(2)).sum::<f64>();
        confidences.push(row[class]);
        correct.push(class == *y as usize);
    }
    let Scores::Classes(scores) = scored[0].tally.scores()? else { panic!("not classes") };
    assert_eq!((scores.n, scores.accuracy), (9000, hits as f64 / 9000.0));
    assert!((scores.brier / (brier / 9000.0) - 1.0).abs() < 1e-12);
    assert!((scores.ece - expected_calibration_error(&confidences, &correct, 15)).abs() < 1e-12);
    assert!(scored[0].uncertainty.is_none());
    Ok(())
}

#[test]
fn samples_drawn_by_ranks_are_those_of_one_with_their_reports() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(60));
    let train = Table::read(&path)?.dataset(&["y".to_string()])?;
    let laplace = Laplace::fit_shared(network(&[2, 4, 1], 1), train, Family::gaussian(0.3)?, &FitOptions::default())?;
    let iterative = MetricOptions { solver: MetricSolver::Iterative(Default::default()), ..Default::default() };
    let batch = MetricBatch { size: 30, redraw: true };
    for how in [MetricOptions::default(), iterative, MetricOptions { batch: Some(batch), ..Default::default() }] {
        for count in [2, 7] {
            let draw = |range: std::ops::Range<usize>| {
                let options = SamplerOptions { range, seed: 3, ..Default::default() };
                laplace.sample_riemannian_with(MetricName::Fisher, &how, &options, &())
            };
            let expected = draw(0..count)?;
            for size in 1..=4 {
                let work = |team: Team| -> Result<(Option<Samples>, Samples), Error> {
                    let range = team.share_of(0..count);
                    let mine = if range.is_empty() { None } else { Some(draw(range)?) };
                    Ok((Samples::gather(&team, mine.as_ref())?, Samples::share(&team, mine.as_ref())?))
                };
                for (rank, (found, _)) in on_ranks(size, work).into_iter().enumerate() {
                    let (gathered, shared) = found?;
                    assert_eq!(shared, expected, "rank {rank} of {size}");
                    assert_eq!(gathered.as_ref(), (rank == 0).then_some(&expected));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn an_error_in_a_streamed_file_names_its_line_and_one_rank_s_error_ends_the_others() -> Result<(), Error> {
    let folder = folder();
    let mut text = regression(3000);
    text.push_str("0.1,word,0.2\n");
    let path = write(folder.path(), "data.csv", &text);
    let network = network(&[2, 3, 1], 1);
    let fit = |team: Team| -> Result<(), Error> {
        let data = open(&path, team)?;
        Laplace::fit_batches(network.clone(), &data, Family::gaussian(0.3)?, &FitOptions::default()).map(|_| ())
    };
    let alone = fit(Team::alone()).expect_err("a word").to_string();
    assert!(alone.contains("data.csv") && alone.contains("3002") && alone.contains("word"), "{alone}");
    let messages: Vec<String> =
        on_ranks(3, fit).into_iter().map(|(result, _)| result.expect_err("an error").to_string()).collect();
    // The word is seen when the file is opened, and all ranks know of it.
    assert!(messages.iter().all(|message| *message == alone), "{messages:?}");

    // What the likelihood refuses is seen by the rank that has the row.
    let rows: String = (0..3000).map(|n| format!("0.1,{},{}\n", n % 7, n % 2)).collect();
    let path = write(folder.path(), "labels.csv", &format!("a,b,y\n{rows}0.1,3,0.5\n"));
    let fit = |team: Team| -> Result<(), Error> {
        let data = open(&path, team)?;
        let family: Family = "bernoulli".parse()?;
        Laplace::fit_batches(network.clone(), &data, family, &FitOptions::default()).map(|_| ())
    };
    let messages: Vec<String> =
        on_ranks(3, fit).into_iter().map(|(result, _)| result.expect_err("an error").to_string()).collect();
    assert!(messages[2].contains("0.5"), "{messages:?}");
    assert!(messages[0].contains("gone") && messages[1].contains("gone"), "{messages:?}");
    Ok(())
}

#[test]
fn parts_of_a_fit_join_to_the_bytes_of_a_single_one() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(700));
    let data = open(&path, Team::alone())?;
    let network = network(&[2, 6, 1], 3);
    let (last_layer, family) = (Weights::LastLayer.restrict(&network)?, Family::gaussian(0.3)?);
    for (model, structure) in [
        (&network, Structure::WeightSpace),
        (&network, Structure::Kronecker),
        (&network, Structure::Diagonal),
        (&last_layer, Structure::WeightSpace),
    ] {
        let options = FitOptions { structure, prior_mean: 0.1.into(), temperature: 0.5, ..Default::default() };
        let mut whole = Laplace::fit_batches(model.clone(), &data, family.clone(), &options)?;
        let without = bytes(&whole, Contents::Curvature);
        whole.keep_data(data.read_all()?)?;
        let with = bytes(&whole, Contents::TrainingData);
        // More parts than blocks, too.
        for count in [1, 2, 3, 5, 13] {
            let parts = |keep: bool| -> Result<Vec<FitPart>, Error> {
                (0..count)
                    .rev()
                    .map(|index| {
                        let shard = Shard::new(index, count).expect("a part");
                        let mut part = FitPart::fit(model.clone(), &data, family.clone(), &options, shard)?;
                        if keep {
                            part.keep_data(&data)?;
                        }
                        let path = folder.path().join(format!("part{index}"));
                        part.save(&path)?;
                        assert!(FitPart::is_in(&path)? && Laplace::load(&path).is_err());
                        FitPart::load(&path)
                    })
                    .collect()
            };
            assert!(bytes(&FitPart::join(parts(false)?)?, Contents::Curvature) == without, "{structure}, {count}");
            assert!(bytes(&FitPart::join(parts(true)?)?, Contents::TrainingData) == with, "{structure}, {count}");
        }
    }
    Ok(())
}

#[test]
fn parts_that_do_not_belong_together_are_refused() -> Result<(), Error> {
    let folder = folder();
    let path = write(folder.path(), "data.csv", &regression(700));
    let data = open(&path, Team::alone())?;
    let network = network(&[2, 3, 1], 3);
    let part = |index, prior: f64| {
        let options = FitOptions { prior_precision: prior.into(), ..Default::default() };
        let shard = Shard::new(index, 3).expect("a part");
        FitPart::fit(network.clone(), &data, Family::gaussian(0.3).expect("a family"), &options, shard)
    };
    let refusal = |parts: Vec<FitPart>| FitPart::join(parts).expect_err("a refusal").to_string();
    assert_eq!(refusal(vec![]), "there are no parts to join");
    assert_eq!(refusal(vec![part(0, 1.0)?, part(2, 1.0)?]), "part 2/3 of the fit is missing");
    let twice = vec![part(0, 1.0)?, part(1, 1.0)?, part(1, 1.0)?, part(2, 1.0)?];
    assert_eq!(refusal(twice), "part 2/3 of the fit is given twice");
    assert!(refusal(vec![part(0, 1.0)?, part(1, 2.0)?, part(2, 1.0)?]).contains("1/3 and 2/3 are of different fits"));
    assert_eq!("2/3".parse::<Shard>().map(|shard| shard.of(12)), Ok(4..8));
    assert!(["0/3", "4/3", "1", "a/b", "1/0"].iter().all(|text| text.parse::<Shard>().is_err()));
    Ok(())
}
