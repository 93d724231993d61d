"""Sections for encoder input, normalisation and positional encoding. Each section has several kinds."""

from abc import abstractmethod
from math import prod
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specs.section import Count, Epsilon, Section, Size, reject


class Tokens(Section):
    """Encoder input that consists of token IDs (section 3.4)."""

    kind: Literal["tokens"]
    """The encoder reads token IDs and embeds them (section 3.4)."""


class Subsampling(Section):
    """Options for a convolution over source features, which usually shortens the sequence."""

    kernel: Annotated[int, Field(ge=1, le=255)]
    """Kernel size, an odd number: the kernel is centred on a position. Unit: positions."""
    stride: Annotated[int, Field(ge=1, le=16)]
    """Stride of the convolution: n input positions become n / stride output positions, rounded up. Unit: positions."""


class Features(Section):
    """Encoder input that consists of float32 vectors, such as spectrogram frames or image patches (section 7)."""

    kind: Literal["features"]
    """The encoder reads float32 vectors, such as spectrogram frames or image patches (section 7). After the
    convolutions, the vectors are multiplied by sqrt(d_model) if `scale_embeddings` is true, as embeddings are."""
    width: Annotated[int, Field(ge=1, le=65_536)]
    """Dimension of each input vector. Unit: features."""
    subsampling: Annotated[tuple[Subsampling, ...], Field(strict=False)] = Field(default=(), max_length=8)
    """Convolutions over the input vectors, in order, each followed by `activation` (Radford et al. 2022: `[{kernel: 3,
    stride: 1}, {kernel: 3, stride: 2}]`). If the list is empty, a linear map projects each vector to d_model. Default:
    empty."""
    activation: Literal["gelu", "glu"] = "gelu"
    """Activation of the convolutions. gelu: GELU (Radford et al. 2022). glu: a gated linear unit, for which a
    convolution computes twice as many features (Synnaeve et al. 2020; fairseq S2T). Default: gelu."""

    def _check(self) -> None:
        for index, convolution in enumerate(self.subsampling):
            if convolution.kernel % 2 == 0:
                problem = f"the kernel of a source convolution is centred, so it must be odd, not {convolution.kernel}"
                reject(f"subsampling.{index}.kernel", problem, f"write `kernel: {convolution.kernel + 1}`")

    @property
    def total_stride(self) -> int:
        """Number of input vectors per encoder position: the product of the strides of all convolutions."""
        return prod(convolution.stride for convolution in self.subsampling)


Source = Annotated[Tokens | Features, Field(discriminator="kind")]


PictureSize = Annotated[int, Field(ge=1, le=1_024)]


class Masks(Section):
    """Random masks that hide ranges of frames or features in training (SpecAugment; Park et al. 2019)."""

    number: Count = Field(default=0, le=1_000)
    """Number of masks in each example (Park et al. 2019: 1 or 2). Each mask has a new random width and place in every
    epoch. Default: 0."""
    width: Count = Field(default=0, le=100_000)
    """Largest width of a mask. Unit: frames for masks in time, and features for masks in frequency. Default: 0."""


Warp = Annotated[float, Field(ge=0, le=1)]


class FeatureSource(Section):
    """Base class for sources that a model reads as features, such as `Audio` and `Image`."""

    modality: ClassVar[str]
    """The subclass of `FeatureModality` that reads the source, as `module:name`."""
    augmentation: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that only control random changes to training examples."""
    kind: str
    """Name of the modality."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features per frame, which must equal `architecture.source.width`."""

    @property
    def rows(self) -> int:
        """Number of rows in the grid of patches, if the frames are image patches. Otherwise 1."""
        return 1

    @property
    def max_growth(self) -> float:
        """Largest factor by which augmentation lengthens an example."""
        return 1.0


class Audio(FeatureSource):
    """Audio files (WAV, FLAC, OGG or MP3), read as log-mel filter bank features. Frames are 10 ms apart."""

    modality = "zoo.features.audio:Audio"
    augmentation = ("time_masks", "frequency_masks", "frequency_warp", "time_warp")
    kind: Literal["audio"]
    """Read audio files, mixed to one channel and resampled to 16 kHz. A frame contains the
    log-mel filter bank features of a window of 25 ms, and windows start every 10 ms. In each file, every feature is
    shifted and scaled to mean 0 and variance 1."""
    bins: Annotated[int, Field(ge=8, le=512)] = 80
    """Number of mel filters. With more than 120 filters, some filters are so narrow that they contain no frequency of
    the spectrum, and their output is always 0. Default: 80. Unit: features."""
    dynamic_range: Annotated[float, Field(gt=0, le=1_000)] | None = None
    """Largest difference between two features of a file (Radford et al. 2022: 80). Lower features are raised, so that
    inaudible noise has no effect. null: no limit. Default: null. Unit: decibels."""
    time_masks: Masks = Masks()
    """Masks that hide consecutive frames in training. Default: none."""
    frequency_masks: Masks = Masks()
    """Masks that hide consecutive features of all frames in training. Default: none."""
    frequency_warp: Warp = 0.0
    """Multiply the frequencies of each training example by a random factor between 1 / (1 + x) and 1 + x, where x is
    this value, to simulate other voices (Jaitly & Hinton 2013). Default: 0."""
    time_warp: Warp = 0.0
    """Multiply the length of each training example by a random factor between 1 / (1 + x) and 1 + x, where x is this
    value, to simulate slower and faster speech (Ko et al. 2015). Default: 0."""

    @property
    def width(self) -> int:
        """Number of features per frame."""
        return self.bins

    @property
    def max_growth(self) -> float:
        """Largest factor by which augmentation lengthens an example."""
        return 1 + self.time_warp


class PatchSize(Section):
    """Size of image patches."""

    height: PictureSize
    """Height of a patch. If it equals the height of the image, each patch is a column. Unit: pixels."""
    width: PictureSize
    """Width of a patch. Unit: pixels."""


class Image(FeatureSource):
    """Image files (PNG or JPEG). A frame is a patch of greyscale pixels."""

    modality = "zoo.features.image:Image"
    kind: Literal["image"]
    """Read images, which are converted to greyscale and scaled to a fixed height. The pixel values of each image are
    normalised to mean 0 and variance 1. A frame is a patch. Patches follow each other column by column, from top to
    bottom."""
    height: PictureSize = 32
    """Height to which images are scaled. Their aspect ratio does not change. Default: 32. Unit: pixels."""
    patch: PatchSize = PatchSize(height=32, width=1)
    """Size of the patches. Default: columns, `{height: 32, width: 1}`."""

    @property
    def width(self) -> int:
        """Number of pixels in each patch."""
        return self.patch.height * self.patch.width

    @property
    def rows(self) -> int:
        """Number of patches in each column of the image."""
        return self.height // self.patch.height

    def _check(self) -> None:
        if self.height % self.patch.height:
            problem = f"the image height ({self.height}) is not a multiple of the patch height ({self.patch.height})"
            reject(("patch.height", "height"), problem, f"write a `patch.height` that divides {self.height}")


SourceFiles = Annotated[Audio | Image, Field(discriminator="kind")]


class Norm(Section):
    """Normalisation of the sub-layers (section 3.1)."""

    kind: Literal["layer_norm", "rms_norm", "half_variance", "none"]
    """layer_norm has a gain and a bias (section 3.1; Ba et al. 2016). rms_norm divides by the root mean square without
    subtracting the mean, and has a gain (Zhang & Sennrich 2019). half_variance multiplies by sqrt(0.5), so that a sum
    of two values has the same variance as each of them (Gehring et al. 2017, section 3.5). none: no normalisation."""
    placement: Literal["post", "pre", "both"]
    """Position of the norms (section 3.1: post). post: after the residual sum. pre: before the sub-layer, and once more
    after the last layer. both: before and after the sub-layer, and once more after the last layer."""
    epsilon: Epsilon = 1e-6
    """Constant added to the variance or mean square to avoid division by zero (section 3.1; the paper gives no
    value)."""
    embeddings: bool = False
    """Whether the sums of embeddings and positional encodings are also normalised (section 3.4: no)."""


class PositionKind(Section):
    """Base class for positional encodings."""

    score_bias: ClassVar[Literal["constant", "learned"] | None] = None
    """Type of the bias that positions add to attention scores, or None. If it is learned, all layers share it."""


class Sinusoidal(PositionKind):
    """Sinusoids that are added to the embeddings (section 3.5)."""

    kind: Literal["sinusoidal", "sinusoidal_halves"]
    """sinusoidal: sines and cosines alternate (section 3.5). sinusoidal_halves: all sines precede all cosines, and the
    longest wavelength is exactly 10000 x 2 pi, as in tensor2tensor."""
    first: Count = Field(default=0, le=1_024)
    """Position number of a sentence's first token (section 3.5: 0; OpenNMT-tf: 1; fairseq: 2)."""


class Sinusoidal2d(PositionKind):
    """Two-dimensional sinusoids for patches of an image. The decoder uses the sinusoids of section 3.5."""

    kind: Literal["sinusoidal_2d"]
    """The first half of the features encodes the column of a patch, and the second half its row, each with the
    sinusoids of section 3.5 for d_model / 2 features (section 7). The decoder uses the sinusoids of section 3.5."""
    rows: Size = Field(le=1_024)
    """Number of patches in each column of an image. The patches of a column follow each other from top to bottom. Unit:
    patches."""


class Learned(PositionKind):
    """Learned positional encodings: a table with one vector per position (section 3.5; Table 3, row E)."""

    kind: Literal["learned"]
    """Table with one learned vector per position (section 3.5; Table 3, row E)."""
    rows: Size = Field(le=1_048_576)
    """Number of positions in the table. It is the maximum length of a sentence, including EOS. Unit: positions."""


class Rotary(PositionKind):
    """Rotary positional encoding: queries and keys are rotated according to their positions (Su et al. 2021)."""

    kind: Literal["rotary"]
    """Rotate queries and keys of self-attention by angles that grow with the position, so that their dot product
    depends on the distance between them (Su et al. 2021, section 3.2). Feature i is paired with i + d_k / 2."""
    theta: Annotated[float, Field(gt=1, le=1e9)] = 10_000.0
    """Base of the rotation angles. Feature pair i (of d_k / 2 pairs) is rotated by theta^(-2i/d_k) radians per
    position."""


class Relative(PositionKind):
    """Learned attention biases that depend on the distance between query and key (T5; Raffel et al. 2020)."""

    score_bias = "learned"
    kind: Literal["relative"]
    """Add a learned bias to each score of self-attention. The bias depends on the head and on the distance between
    query and key (Raffel et al. 2020, section 2.1). All encoder layers share the same biases, and so do all decoder
    layers."""
    buckets: Annotated[int, Field(ge=4, le=4_096, multiple_of=4)] = 32
    """Number of buckets. A bucket is a range of distances that share one learned bias. Each small distance has its own
    bucket, and larger distances are grouped in ranges of exponentially growing size. The encoder uses half of the
    buckets for each direction."""
    max_distance: Annotated[int, Field(ge=2, le=1_048_576)] = 128
    """This distance and all larger distances get the bias of the last bucket. Unit: positions."""

    def _check(self) -> None:
        if self.max_distance <= self.buckets // 2:
            problem = f"`max_distance` ({self.max_distance}) is too small: half of the `buckets` have one distance each"
            hint = f"write a `max_distance` of more than {self.buckets // 2}, or fewer `buckets`"
            reject(("max_distance", "buckets"), problem, hint)


class Alibi(PositionKind):
    """Penalty on attention scores, proportional to the distance between query and key (ALiBi; Press et al. 2022)."""

    score_bias = "constant"
    kind: Literal["alibi"]
    """Subtract a penalty from each score of self-attention: the distance between query and key, times a constant slope
    of the head (ALiBi; Press et al. 2022, section 3)."""


class NoPositions(PositionKind):
    """No positional encoding."""

    kind: Literal["none"]
    """No positional encoding. The model knows the order of tokens only from convolutions, recurrences and causal
    attention."""


Positions = Annotated[
    Sinusoidal | Sinusoidal2d | Learned | Rotary | Relative | Alibi | NoPositions, Field(discriminator="kind")
]
