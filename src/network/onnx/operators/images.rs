//! Convolutions over images `[points, channels, rows, columns]` and signals `[points, channels, length]`.

use crate::network::graph::{Value, Window};
use crate::network::onnx::lowering::Lowering;
use crate::network::onnx::messages::NodeProto;
use crate::network::onnx::node::Call;
use crate::network::onnx::parameters::Role;
use crate::network::onnx::scalar::Numbers;
use crate::network::onnx::tensor::{Content, Shape, Size, Tensor};
use crate::network::onnx::trouble::{Step, refuse};

use super::products::multiply;
use super::shapes::join;

/// A window over images, and where it stands.
pub struct Geometry {
    /// The window; a signal is an image with one row.
    pub window: Window,
    /// Rows and columns of padding behind the image.
    pub behind: [usize; 2],
    /// The number of images of a point.
    pub images: usize,
    /// The number of channels.
    pub channels: usize,
    signal: bool,
}

/// A list over one or two axes as rows and columns.
fn pair(list: &[usize], missing: usize) -> Step<[usize; 2]> {
    match *list {
        [length] => Ok([missing, length]),
        [rows, columns] => Ok([rows, columns]),
        _ => refuse("one or two axes besides the channels are supported"),
    }
}

fn attribute(node: &NodeProto, name: &str, axes: usize, missing: usize) -> Step<Vec<usize>> {
    let list = node.ints(name).filter(|list| !list.is_empty()).unwrap_or_else(|| vec![missing as i64; axes]);
    let list: Option<Vec<usize>> = list.into_iter().map(|value| usize::try_from(value).ok()).collect();
    list.filter(|list| list.len() % axes.max(1) == 0).ok_or_else(|| format!("its {name} do not fit its input").into())
}

impl Geometry {
    /// The window of a node over data; `kernel` where the weights say it.
    #[allow(clippy::indexing_slicing, reason = "axes are 0 and 1, and every array has an entry for each")]
    pub fn new(node: &NodeProto, shape: &Shape, kernel: Option<&[usize]>) -> Step<Self> {
        let [images, channels, sizes @ ..] = &shape.lengths[..] else { return refuse("it needs images or signals") };
        if shape.points.is_some_and(|points| points.axis != 0) {
            return refuse("it moves over the points");
        }
        let axes = sizes.len();
        let image = pair(sizes, 1)?;
        let own = |name: &str, missing: usize| pair(&attribute(node, name, axes, missing)?, missing);
        let kernel = kernel.map_or_else(|| own("kernel_shape", 1), |kernel| pair(kernel, 1))?;
        let (stride, dilation) = (own("strides", 1)?, own("dilations", 1)?);
        if [kernel, stride, dilation].iter().flatten().any(|value| *value == 0 || *value > 1 << 24) {
            return refuse("it needs a kernel, strides and dilations of at least 1");
        }
        let span = [0, 1].map(|axis| (kernel[axis] - 1).saturating_mul(dilation[axis]).saturating_add(1));
        let pads = attribute(node, "pads", 2 * axes, 0)?;
        let (before, behind) = pads.split_at_checked(axes).ok_or("its pads do not fit its input")?;
        let (mut padding, mut behind) = (pair(before, 0)?, pair(behind, 0)?);
        let transposed = node.op_type == "ConvTranspose";
        let auto = node.word("auto_pad");
        if auto.starts_with("SAME") && !transposed {
            for axis in 0..2 {
                let reach = (image[axis].div_ceil(stride[axis]).saturating_sub(1)).saturating_mul(stride[axis]);
                let total = reach.saturating_add(span[axis]).saturating_sub(image[axis]);
                let (less, more) = (total / 2, total.div_ceil(2));
                (padding[axis], behind[axis]) = if auto == "SAME_UPPER" { (less, more) } else { (more, less) };
            }
        }
        let ceil = node.int("ceil_mode") == Some(1);
        let mut outputs = [0; 2];
        for axis in 0..2 {
            let whole = image[axis].saturating_add(padding[axis]).saturating_add(behind[axis]);
            let room = whole.checked_sub(span[axis]).ok_or_else(|| {
                format!("its window of {kernel:?} does not fit into {image:?} with a padding of {padding:?}")
            })?;
            outputs[axis] = if ceil { room.div_ceil(stride[axis]) } else { room / stride[axis] } + 1;
            // A last window must start inside of the image or before it.
            if ceil && (outputs[axis] - 1) * stride[axis] >= image[axis] + padding[axis] {
                outputs[axis] -= 1;
            }
        }
        let window = Window { image, kernel, stride, padding, dilation, outputs, transposed };
        Ok(Self { window, behind, images: *images, channels: *channels, signal: axes == 1 })
    }

    /// The same for a transposed convolution, whose output has another size.
    #[allow(clippy::indexing_slicing, reason = "axes are 0 and 1, and every array has an entry for each")]
    fn transposed(node: &NodeProto, shape: &Shape, kernel: &[usize]) -> Step<Self> {
        // The window must fit into the output; for the input any will do.
        let plain = NodeProto { attribute: Vec::new(), op_type: "ConvTranspose".to_string(), ..NodeProto::default() };
        let mut geometry = Self::new(&plain, shape, Some(&vec![1; kernel.len()]))?;
        let axes = kernel.len();
        let own = |name: &str, missing: usize| pair(&attribute(node, name, axes, missing)?, missing);
        let (stride, dilation, more) = (own("strides", 1)?, own("dilations", 1)?, own("output_padding", 0)?);
        let pads = attribute(node, "pads", 2 * axes, 0)?;
        let (before, behind) = pads.split_at_checked(axes).ok_or("its pads do not fit its input")?;
        let (mut before, behind) = (pair(before, 0)?, pair(behind, 0)?);
        let kernel = pair(kernel, 1)?;
        let asked = node.ints("output_shape").map(|_| own("output_shape", 1)).transpose()?;
        let auto = node.word("auto_pad");
        let image = geometry.window.image;
        let mut outputs = [0; 2];
        for axis in 0..2 {
            let span = (kernel[axis].saturating_sub(1)).saturating_mul(dilation[axis]).saturating_add(1);
            let whole = (image[axis] - 1).saturating_mul(stride[axis]).saturating_add(span).saturating_add(more[axis]);
            let same = auto.starts_with("SAME").then(|| image[axis].saturating_mul(stride[axis]));
            outputs[axis] = match asked.map(|asked| asked[axis]).or(same) {
                Some(size) => {
                    let total = whole.saturating_sub(size);
                    before[axis] = if auto == "SAME_UPPER" { total / 2 } else { total.div_ceil(2) };
                    size
                }
                None => whole.saturating_sub(before[axis].saturating_add(behind[axis])),
            };
        }
        let image = geometry.window.image;
        geometry.window = Window { image, kernel, stride, padding: before, dilation, outputs, transposed: true };
        match geometry.window.problem() {
            Some(problem) => refuse(format!("it {problem}")),
            None => Ok(geometry),
        }
    }

    /// The shape of results with this many channels.
    pub fn shape(&self, channels: usize, from: &Shape) -> Shape {
        let [rows, columns] = self.window.outputs;
        let lengths = match self.signal {
            true => vec![self.images, channels, columns],
            false => vec![self.images, channels, rows, columns],
        };
        Shape { lengths, points: from.points }
    }
}

/// A convolution.
pub fn convolution(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (data, weight) = (call.input(0)?, call.input(1)?);
    let geometry = Geometry::new(call.node, &data.shape, weight.shape.lengths.get(2..))?;
    let [outputs, inputs, ..] = weight.shape.lengths[..] else { return refuse("its weights are no kernels") };
    let inputs = inputs.saturating_mul(geometry.window.taps());
    let matrix = low.reshape(weight, &[Size::from(outputs as i64), Size::from(inputs as i64)])?;
    convolve(low, call, &geometry, &matrix)
}

/// The transpose of one. Its weights are `[inputs, outputs/groups, rows, columns]`.
pub fn transposed_convolution(low: &mut Lowering<'_>, call: &Call<'_>) -> Step<Tensor> {
    let (data, weight) = (call.input(0)?, call.input(1)?);
    let [inputs, outputs, kernel @ ..] = &weight.shape.lengths[..] else { return refuse("its weights are no kernels") };
    let geometry = Geometry::transposed(call.node, &data.shape, kernel)?;
    let groups = groups(call, &geometry, *inputs, 1)?;
    let size = |size: usize| Size::from(size as i64);
    let (own, taps) = (inputs / groups, geometry.window.taps());
    let split = low.reshape(weight, &[size(groups), size(own), size(*outputs), size(taps)])?;
    let turned = low.transpose(&split, &[0, 2, 1, 3])?;
    let matrix = low.reshape(&turned, &[size(groups * outputs), size(own * taps)])?;
    convolve(low, call, &geometry, &matrix)
}

/// The number of groups, which must split the channels of inputs and outputs.
fn groups(call: &Call<'_>, geometry: &Geometry, inputs: usize, outputs: usize) -> Step<usize> {
    let groups = usize::try_from(call.node.int("group").unwrap_or(1)).unwrap_or(0);
    let fits = groups > 0 && inputs == geometry.channels && inputs % groups == 0 && (outputs == 1 || outputs % groups == 0);
    match fits {
        true => Ok(groups),
        false => refuse(format!("its weights in {groups} groups do not fit {} channels", geometry.channels)),
    }
}

/// Windows by a matrix `[outputs, channels/groups · taps]`.
fn convolve(low: &mut Lowering<'_>, call: &Call<'_>, geometry: &Geometry, matrix: &Tensor) -> Step<Tensor> {
    let (data, bias) = (call.input(0)?, call.optional(2));
    let [outputs, inputs] = matrix.shape.lengths[..] else { return refuse("its weights are no kernels") };
    let groups = groups(call, geometry, geometry.channels, outputs)?;
    if inputs.checked_mul(groups) != geometry.channels.checked_mul(geometry.window.taps()) {
        return refuse(format!("its weights in {groups} groups do not fit {} channels", geometry.channels));
    }
    let own = low.initializer(call.input(1)?);
    let weight = match own {
        Some(_) => low.view(call.input(1)?, Role::Weight, None)?.and(low.view(matrix, Role::Weight, None)?),
        None => low.view(matrix, Role::Weight, None)?,
    };
    let Some(view) = weight else {
        let result = by_patches(low, data, geometry, matrix, groups)?;
        return bias.map_or(Ok(result.clone()), |bias| with_bias(low, &result, bias));
    };
    let with = match bias {
        Some(bias) if matches!(bias.content, Content::Parameter(_)) => low.view(bias, Role::Shift, own)?,
        _ => None,
    };
    let image = [geometry.channels, geometry.window.image[0], geometry.window.image[1]];
    let values = separate(low, data, geometry.images, &image)?;
    let mut results = Vec::with_capacity(values.len());
    for value in values {
        results.push(low.graph.windows(value, geometry.window, groups, &view, with.as_ref())?);
    }
    let shape = geometry.shape(outputs, &data.shape);
    let joined = if let [only] = results[..] { only } else { low.graph.concat(&results, 0)? };
    let value = low.graph.reshape(joined, &shape.lengths)?;
    let result = low.data(value, shape);
    match bias.filter(|_| with.is_none()) {
        Some(bias) => with_bias(low, &result, bias),
        None => Ok(result),
    }
}

fn with_bias(low: &mut Lowering<'_>, result: &Tensor, bias: &Tensor) -> Step<Tensor> {
    let mut sizes = vec![Size::from(bias.shape.size() as i64)];
    sizes.resize(result.shape.rank().saturating_sub(1), Size::from(1));
    let bias = low.reshape(bias, &sizes)?;
    low.sum((result, 1.0), (&bias, 1.0))
}

/// The images of a point one by one.
fn separate(low: &mut Lowering<'_>, data: &Tensor, images: usize, image: &[usize; 3]) -> Step<Vec<Value>> {
    let value = low.value(data)?;
    let size = image.iter().product::<usize>();
    if images == 1 {
        return Ok(vec![low.graph.reshape(value, image)?]);
    }
    low.budget.spend(data.shape.size().saturating_mul(4))?;
    let own = |index: usize| (index * size..(index + 1) * size).map(Some).collect::<Vec<Option<usize>>>();
    (0..images).map(|index| Ok(low.graph.select(value, image, &own(index))?)).collect()
}

/// Windows by a matrix of any kind: the patches below them are written out, and multiplied.
fn by_patches(
    low: &mut Lowering<'_>,
    data: &Tensor,
    geometry: &Geometry,
    matrix: &Tensor,
    groups: usize,
) -> Step<Tensor> {
    let (window, channels) = (&geometry.window, geometry.channels / groups);
    let (taps, positions, pixels) = (window.taps(), window.positions(), window.pixels());
    let outputs = matrix.shape.length(0) / groups;
    let width = channels.saturating_mul(taps);
    let mut results = Vec::with_capacity(groups);
    for group in 0..groups {
        low.budget.spend(geometry.images.saturating_mul(positions).saturating_mul(width).saturating_mul(4))?;
        let entry = |image: usize, position: usize, place: usize| {
            let channel = (image * groups + group) * channels + place / taps;
            window.pixel(position, place % taps).map(|pixel| channel * pixels + pixel)
        };
        let places: Vec<Option<usize>> = (0..geometry.images)
            .flat_map(|image| (0..positions).map(move |position| (image, position)))
            .flat_map(|(image, position)| (0..width).map(move |place| (image, position, place)))
            .map(|(image, position, place)| entry(image, position, place))
            .collect();
        let shape = Shape { lengths: vec![geometry.images, positions, width], points: data.shape.points };
        let patches = low.entries(data, shape, &places, 0.0)?;
        let rows = (group * outputs..(group + 1) * outputs).map(Some).collect();
        let own = low.pick(matrix, &[Some(rows), None], 0.0)?;
        let turned = low.swapped(&own)?;
        let product = multiply(low, &patches, &turned)?;
        results.push(low.swapped(&product)?);
    }
    let joined = join(low, &results, 1)?;
    low.in_shape(&joined, geometry.shape(matrix.shape.length(0), &data.shape))
}
