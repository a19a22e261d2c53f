//! A convolutional network with a residual block, written and trained in candle on handwritten digits, from its layers
//! in memory to exact evidence, linearised predictions and certified geodesics, by both exact solvers.

mod common;

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, BatchNorm, Conv2d, Conv2dConfig, Linear, ModuleT, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use candle_nn::{GroupNorm, LayerNormConfig, batch_norm, conv2d, conv2d_no_bias, layer_norm, linear, loss, ops};
use ndarray::{Array2, Axis, Slice};
use riemannian_laplace::internals::likelihood::Categorical;
use riemannian_laplace::internals::metric::{self, Metric};
use riemannian_laplace::{
    Activation, Architecture, Dataset, Error, EvidenceOptions, Family, FitOptions, Image, Laplace, Layer, Method,
    MetricName, Model, Network, Residual, SamplerOptions, Scores, Structure, TrainingOptions, train,
};

use common::{Outcome, assert_all_close, normal_vector};

const CLASSES: usize = 3;

/// The first images of zeros, ones and twos, pixels between −½ and ½.
fn digits(count: usize) -> Result<Dataset, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("data/digits.csv")?;
    let parse = |line: &str| line.split(',').map(str::parse).collect::<Result<Vec<f64>, _>>();
    let rows: Vec<Vec<f64>> = text.lines().skip(1).map(parse).collect::<Result<_, _>>()?;
    let rows: Vec<Vec<f64>> = rows.into_iter().filter(|row| row[64] < CLASSES as f64).take(count).collect();
    let inputs = Array2::from_shape_fn((rows.len(), 64), |(n, j)| rows[n][j] / 16.0 - 0.5);
    Ok(Dataset::new(inputs, Array2::from_shape_fn((rows.len(), 1), |(n, _)| rows[n][64]))?)
}

fn images(inputs: &Array2<f64>) -> candle_core::Result<Tensor> {
    Tensor::from_vec(inputs.iter().copied().collect(), (inputs.nrows(), 1, 8, 8), &Device::Cpu)
}

/// The user's own module.
struct Classifier {
    stem: Conv2d,
    norm: BatchNorm,
    block: Conv2d,
    head: Linear,
}

impl Classifier {
    fn new(variables: VarBuilder<'_>) -> candle_core::Result<Self> {
        let halved = Conv2dConfig { padding: 1, stride: 2, ..Default::default() };
        let padded = Conv2dConfig { padding: 1, ..Default::default() };
        Ok(Self {
            stem: conv2d(1, 8, 3, halved, variables.pp("stem"))?,
            norm: batch_norm(8, 1e-5, variables.pp("norm"))?,
            block: conv2d(8, 8, 3, padded, variables.pp("block"))?,
            head: linear(128, CLASSES, variables.pp("head"))?,
        })
    }
}

impl Module for Classifier {
    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let h = self.norm.forward_t(&self.stem.forward(x)?, false)?.silu()?;
        let h = (self.block.forward(&h)?.tanh()? + h)?;
        self.head.forward(&h.flatten_from(1)?)
    }
}

/// The module after some steps of training with a weight decay, and its variables.
fn trained(data: &Dataset) -> Result<(Classifier, VarMap), Box<dyn std::error::Error>> {
    let variables = VarMap::new();
    let classifier = Classifier::new(VarBuilder::from_varmap(&variables, DType::F64, &Device::Cpu))?;
    // Weights and running statistics that do not depend on candle's random numbers.
    let mut names: Vec<String> = variables.data().lock().expect("one thread").keys().cloned().collect();
    names.sort();
    for (seed, name) in names.iter().enumerate() {
        let table = variables.data().lock().expect("one thread");
        let (variable, size) = (&table[name], table[name].elem_count());
        let draws = normal_vector(size, seed as u64);
        let values: Vec<f64> = match name.as_str() {
            "norm.running_mean" => draws.iter().map(|value| 0.1 * value).collect(),
            "norm.running_var" => draws.iter().map(|value| 0.3 + 0.1 * value * value).collect(),
            "norm.weight" => vec![1.0; size],
            _ => draws.iter().map(|value| 0.15 * value).collect(),
        };
        variable.set(&Tensor::from_vec(values, variable.dims(), &Device::Cpu)?)?;
    }
    let table = variables.data().lock().expect("one thread").clone();
    let mut free: Vec<_> = table.iter().filter(|(name, _)| !name.contains("running")).collect();
    free.sort_by_key(|(name, _)| name.to_string());
    let free = free.into_iter().map(|(_, variable)| variable.clone()).collect();
    let mut optimizer = AdamW::new(free, ParamsAdamW { lr: 5e-3, weight_decay: 1e-2, ..Default::default() })?;
    let labels: Vec<u32> = data.targets().iter().map(|label| *label as u32).collect();
    let (inputs, labels) = (images(data.inputs())?, Tensor::new(labels, &Device::Cpu)?);
    for _ in 0..60 {
        let outputs = classifier.forward(&inputs)?;
        optimizer.backward_step(&loss::nll(&ops::log_softmax(&outputs, 1)?, &labels)?)?;
    }
    Ok((classifier, variables))
}

/// The same as a network: a line for each of the forward function's.
fn network(classifier: &Classifier) -> riemannian_laplace::Result<Network> {
    Network::builder([1, 8, 8])
        .conv2d(&classifier.stem)
        .batch_norm(&classifier.norm)
        .activation(Activation::Silu)
        .residual(|block| block.conv2d(&classifier.block).activation(Activation::Tanh))
        .flatten()
        .linear(&classifier.head)
        .build()
}

#[test]
fn a_candle_network_on_digits_gets_exact_evidence_and_certified_samples_from_both_solvers() -> Outcome {
    let all = digits(160)?;
    let part = |rows: std::ops::Range<usize>| {
        let pick = |values: &Array2<f64>| values.slice_axis(Axis(0), Slice::from(rows.clone())).to_owned();
        Dataset::new(pick(all.inputs()), pick(all.targets()))
    };
    let (data, test) = (part(0..60)?, part(60..160)?);
    let (classifier, variables) = trained(&data)?;
    let network = network(&classifier)?;
    assert_eq!(network.n_params(), 80 + 16 + 584 + 387);

    // The network is the module, to the rounding of f64.
    assert!(network.verify(&classifier, &images(test.inputs())?, 1e-12)? < 1e-12);
    let names = ["stem", "norm", "block", "head"];
    assert_eq!(Network::from_variables(network.architecture(), &variables, &names)?, network);

    // Both exact solvers: one factors 1,067 × 1,067, the other 180 × 180 numbers.
    let fit = |structure| {
        let options = FitOptions { structure, ..FitOptions::default() };
        Laplace::fit(network.clone(), data.clone(), Family::new(Categorical), &options)
    };
    let (weight, mut function) = (fit(Structure::WeightSpace)?, fit(Structure::FunctionSpace)?);
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-8 * b.abs();
    assert!(close(weight.log_marginal_likelihood(), function.log_marginal_likelihood()));
    assert!(close(weight.effective_parameters(), function.effective_parameters()));
    let (a, b) = (weight.linearized(test.inputs())?, function.linearized(test.inputs())?);
    assert_all_close(&a.covariance, &b.covariance, 1e-8, "linearised covariance");

    // One acceleration of the Fisher metric, by both.
    let velocity = weight.sample(1, 0)?;
    let velocity: Vec<f64> = velocity.row(0).iter().zip(network.parameters()).map(|(a, b)| a - b).collect();
    let target = function.target("the metric")?;
    let [left, right] = [Structure::WeightSpace, Structure::FunctionSpace].map(|structure| {
        let metric = metric::fisher(&target).with_structure(structure);
        let mut acceleration = vec![0.0; network.n_params()];
        metric.evaluator().acceleration(network.parameters(), &velocity, &mut acceleration);
        acceleration
    });
    assert_all_close(&left, &right, 1e-8, "acceleration");

    // The prior precision that the evidence prefers, then predictions of every kind.
    function.optimize(&EvidenceOptions::default())?;
    let samples = function.sample_riemannian(MetricName::Fisher, &SamplerOptions::first(6), &())?;
    assert_eq!((samples.failed(), samples.uncertified()), (0, 0), "drifts {:?}", samples.drift);
    let riemannian = Method::Samples(std::sync::Arc::new(samples));
    for method in [Method::Map, Method::default(), riemannian] {
        let prediction = function.predict(test.inputs(), &method)?;
        let Scores::Classes(scores) = Scores::of(&prediction, test.targets())? else { return Err("classes".into()) };
        // The evidence likes a wide prior, with which the probit link is cautious and six samples differ: but all know
        // far more than that there are three classes (0.33 and 1.10).
        assert!(scores.accuracy > 0.8 && scores.nll < 0.8, "{scores:?}");
    }
    Ok(())
}

/// Standard normal numbers in f32.
fn numbers(shape: &[usize], seed: u64) -> candle_core::Result<Tensor> {
    let values = normal_vector(shape.iter().product(), seed);
    Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(DType::F32)
}

#[test]
fn candles_own_layers_compute_the_same_in_every_order() -> Outcome {
    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let grouped = Conv2dConfig { padding: 1, groups: 2, dilation: 2, ..Default::default() };
    let (first, second) =
        (conv2d(2, 4, 3, grouped, builder.pp("a"))?, conv2d(4, 4, 1, Default::default(), builder.pp("b"))?);
    let shortcut = conv2d_no_bias(4, 4, 1, Default::default(), builder.pp("c"))?;
    let (scale, shift) = (numbers(&[4], 91)?, numbers(&[4], 92)?);
    let norm = GroupNorm::new(scale.clone(), shift.clone(), 4, 2, 1e-3)?;
    let rows = layer_norm(4, 1e-4, builder.pp("d"))?;
    let vector = layer_norm(8, LayerNormConfig { affine: true, ..Default::default() }, builder.pp("e"))?;
    let (hidden, head) = (linear(4, 8, builder.pp("f"))?, linear(8, 3, builder.pp("g"))?);
    // Weights that do not depend on candle's random numbers.
    let table = variables.data().lock().expect("one thread").clone();
    let mut names: Vec<&String> = table.keys().collect();
    names.sort();
    for (seed, name) in names.into_iter().enumerate() {
        table[name].set(&(numbers(table[name].dims(), seed as u64)? * 0.5)?)?;
    }
    let gelu = candle_nn::Activation::GeluPytorchTanh;
    let forward = |x: &Tensor| -> candle_core::Result<Tensor> {
        let h = norm.forward(&first.forward(x)?)?.relu()?;
        let h = rows.forward(&h)?;
        let h = (second.forward(&h.sin()?)? + shortcut.forward(&h)?)?;
        let h = h.max_pool2d_with_stride(2, 1)?.avg_pool2d(3)?;
        let h = vector.forward(&hidden.forward(&h.flatten_from(1)?)?)?;
        head.forward(&gelu.forward(&h)?)
    };
    let network = Network::builder([2, 6, 6])
        .conv2d(&first)
        .group_norm(2, 1e-3, &scale, &shift)
        .activation(candle_nn::Activation::Relu)
        .layer_norm(&rows)
        .residual_with_shortcut(
            |body| body.activation(Activation::Sin).conv2d(&second),
            |shortcut_of_h| shortcut_of_h.conv2d(&shortcut).dropout(),
        )
        .max_pool2d_with_stride([2, 2], [1, 1])
        .avg_pool2d([3, 3])
        .flatten()
        .linear(&hidden)
        .layer_norm(&vector)
        .activation(gelu)
        .linear(&head)
        .build()?;
    let inputs = numbers(&[7, 2, 6, 6], 93)?;
    // candle normalises layers in f32 only, with roundings of 6e-8, and an ε of 1e-4 magnifies those of a nearly constant
    // row a hundred times.
    assert!(network.verify(&forward, &inputs, 1e-4)? > 0.0);
    // Another network is refused, with the worst output.
    let other = |x: &Tensor| forward(x)?.narrow(1, 0, 3)? * 2.0;
    let refusal = network.verify(&other, &inputs, 1e-4).expect_err("outputs that differ");
    assert!(matches!(refusal, Error::OutputsDiffer { .. }), "{refusal}");
    assert!(matches!(
        network.verify(&|x: &Tensor| forward(x)?.narrow(1, 0, 2), &inputs, 1e-4),
        Err(Error::Size { .. })
    ));
    Ok(())
}

#[test]
fn what_does_not_fit_is_reported_with_its_layer() -> Outcome {
    let variables = VarMap::new();
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu);
    let conv = conv2d(2, 3, 3, Default::default(), builder.pp("conv"))?;
    let (wide, head) = (linear(9, 2, builder.pp("wide"))?, linear(48, 2, builder.pp("head"))?);
    let rms = candle_nn::LayerNorm::rms_norm(Tensor::ones(6, DType::F32, &Device::Cpu)?, 1e-5);
    let ones = Tensor::ones(3, DType::F32, &Device::Cpu)?;
    let start = |channels: usize| Network::builder([channels, 6, 6]);
    let builders = [
        (start(1).conv2d(&conv), "layer 0 (a convolution): takes 2 channels, but has images of 1×6×6"),
        (start(2).conv2d(&conv).linear(&head), "layer 1 (a linear layer): has images of 3×4×4 for inputs; flatten"),
        (start(2).conv2d(&conv).flatten().linear(&wide), "takes 9 inputs, but has vectors of 48"),
        (start(2).flatten().conv2d(&conv), "needs images, but has vectors of 72"),
        (start(2).layer_norm(&rms), "RMS norm"),
        (start(2).group_norm(2, 1e-5, &ones, &ones), "a weight of shape [3], not [2]"),
        (start(2).max_pool2d([7, 7]), "does not fit"),
        (start(2).activation(candle_nn::Activation::Elu(0.5)), "Elu(0.5)"),
        (start(2).residual(|block| block.conv2d(&conv)), "images of 3×4×4 from its body, but images of 2×6×6"),
        (
            start(2).residual(|block| block.flatten().conv2d(&conv)),
            "has a body with layer 1 (a convolution): needs images",
        ),
        (start(2).dropout(), "needs a known number of inputs"),
    ];
    for (builder, words) in builders {
        let message = builder.build().expect_err(words).to_string();
        assert!(message.contains(words), "{message}");
    }
    let layers = vec![riemannian_laplace::Linear::new(9, 2).into()];
    let architecture = Architecture::of_layers(layers)?;
    for (names, words) in [
        (&["wide", "more"][..], "`more`"),
        (&[], "no name for the layer linear 9 → 2"),
        (&["conv"], "`conv.weight`: has shape [3, 2, 3, 3]"),
        (&["narrow"], "`narrow.weight`: is not in the VarMap"),
        (&["wide"], "the variable `conv.bias` belongs"),
    ] {
        let message = Network::from_variables(&architecture, &variables, names).expect_err(words).to_string();
        assert!(message.contains(words), "{message}");
    }
    Ok(())
}

#[test]
fn a_convolutional_network_is_trained_in_the_library() -> Outcome {
    let data = digits(60)?;
    let conv = riemannian_laplace::Conv2d {
        stride: [2, 2],
        padding: [1, 1],
        ..riemannian_laplace::Conv2d::new(Image::new(1, 8, 8), 4, [3, 3])
    };
    let same =
        riemannian_laplace::Conv2d { padding: [1, 1], ..riemannian_laplace::Conv2d::new(conv.output(), 4, [3, 3]) };
    let layers: Vec<Layer> = vec![
        conv.into(),
        riemannian_laplace::GroupNorm::new(conv.output(), 2).into(),
        Residual::new(vec![same.into(), Activation::Tanh.into()], Vec::new())?.into(),
        riemannian_laplace::MaxPool2d::new(conv.output(), [2, 2]).into(),
        Layer::Flatten,
        riemannian_laplace::Linear::new(16, CLASSES).into(),
    ];
    let start = Network::random(Architecture::of_layers(layers)?, 1);
    let options = TrainingOptions { epochs: 120, learning_rate: 2e-2, ..Default::default() };
    let training = train(&start, &data, &Family::new(Categorical), &options, &())?;
    assert!(training.loss < 0.05, "the loss is {}", training.loss);
    let outputs = training.network.outputs(data.inputs().view())?;
    let right = outputs
        .rows()
        .into_iter()
        .zip(data.targets())
        .filter(|(row, label)| (0..CLASSES).all(|class| row[class] <= row[**label as usize]));
    assert!(right.count() > 57);
    // Saved and loaded, running statistics and nested layers included.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("model.safetensors");
    training.network.save(&path)?;
    assert_eq!(Network::load(&path, None)?, training.network);
    Ok(())
}
