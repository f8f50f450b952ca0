"""All settings of the training, in one place."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class HeapConfig:
    """Heaps and their physics.

    Attributes:
        min_objects, max_objects: How many are dropped; at most 30.
        table_share: Share of heaps on a bare table.
        catalogue_share: Share of heaps that hold objects of the catalogue too.
        stack_share: Share of heaps that hold stacks of like things.
        like_share: Chance that an object is one more of another one.
        package_share: Share of heaps of packages and cans on a table, most of them upright.
        tray_share: Share of heaps beside the two trays of the product's table.
        timestep_s: Coarser than the product's heaps: a picture forgives a millimetre.
        settle_steps: Steps until a heap is taken as it is.
    """

    min_objects: int = 2
    max_objects: int = 22
    table_share: float = 0.4
    catalogue_share: float = 0.45
    stack_share: float = 0.12
    like_share: float = 0.12
    package_share: float = 0.2
    tray_share: float = 0.2
    timestep_s: float = 0.004
    settle_steps: int = 350


@dataclass(frozen=True)
class ViewConfig:
    """Pictures of heaps.

    Attributes:
        height, width: Of pictures and of the network's input; multiples of 32. [px]
        batch: Pictures drawn at a time.
        max_tilt_deg: Of the camera from straight down.
        ordinary: Share of the views with ordinary light, colours, exposure and distance; the others are
            extreme, so that nothing found in practice is further out.
        see_through: Share of the views in which some objects are of glass or foil, bags of film apart.
        min_visible_px: Objects that show less are neither asked for nor held against the network. [px]
        textures: How many printed textures there are.
        packages: How many packages, whose sides are printed as a whole.
        wide: Share of the ordinary views in which the heap is a small part of the picture.
    """

    height: int = 384
    width: int = 512
    batch: int = 32
    max_tilt_deg: float = 63.0
    ordinary: float = 0.7
    see_through: float = 0.12
    min_visible_px: int = 60
    textures: int = 512
    packages: int = 400
    wide: float = 0.25


@dataclass(frozen=True)
class CorruptionConfig:
    """How bad sensors are; each share is of the pictures.

    Attributes:
        no_depth: Depth missing entirely.
        no_depth_photographs: The same of views by the product's camera: their 40 things are too few to learn
            from colour alone what a thing is.
        clean_depth: Depth left as it is.
        clean_photographs: The same of views by the product's camera, whose sensor spoilt them already.
        no_colour: Grey pictures.
        strong_colour: Colours, brightness and contrast far off.
    """

    no_depth: float = 0.42
    no_depth_photographs: float = 0.1
    clean_depth: float = 0.22
    clean_photographs: float = 0.65
    no_colour: float = 0.04
    strong_colour: float = 0.25


@dataclass(frozen=True)
class NetworkConfig:
    """Size of the segmenter.

    Attributes:
        widths: Channels at strides 4, 8, 16 and 32.
        depths: Residual blocks there.
        pyramid: Channels of the feature pyramid.
        mask_features: Channels of the features that masks are made of.
        head: Channels within the masks' own small networks.
    """

    widths: tuple[int, int, int, int] = (64, 128, 224, 288)
    depths: tuple[int, int, int, int] = (2, 3, 4, 2)
    pyramid: int = 112
    mask_features: int = 16
    head: int = 8


@dataclass(frozen=True)
class TrainConfig:
    """The loop.

    Attributes:
        batch: Pictures a step.
        views: Pictures held in memory.
        photographs: Most views of catalogue heaps, made by the product's own camera, beside them.
        photograph_share: Share of these in a step, where there are any.
        renew: Pictures drawn anew after each step, on average.
        fill_s: Seconds at most to draw the first pictures in.
        held_out: Share of the heaps kept for checking.
        instances: Objects of a picture whose masks are trained in a step.
        claims: Peaks of the network's own whose masks it learns to judge in a step, in half of the pictures.
        learning_rate, weight_decay: Of AdamW.
        colour_rate: Learning rate of the encoder that knows photographs, as a share of the others'.
        warmup: Share of the time in which the learning rate rises.
        ema: Decay of the running mean of weights, per step.
        checkpoint_s: Seconds between checkpoints.
        half: Whether the large part of the network computes in bf16.
        fuse: Whether the network and its loss are compiled first; needs a C compiler where it trains.
        seed: Of everything random. Convolutions on a GPU may still differ in the last bits.
    """

    batch: int = 64
    views: int = 36_000
    photographs: int = 12_000
    photograph_share: float = 0.33
    renew: int = 1
    fill_s: float = 100.0
    held_out: float = 0.02
    instances: int = 12
    claims: int = 10
    learning_rate: float = 1.3e-3
    colour_rate: float = 0.25
    weight_decay: float = 0.03
    warmup: float = 0.02
    ema: float = 0.9993
    checkpoint_s: float = 90.0
    half: bool = True
    fuse: bool = False
    seed: int = 7


@dataclass(frozen=True)
class ExportConfig:
    """The files that the package ships.

    Attributes:
        height, width: Of the segmenter's input; multiples of 32. Larger than the pictures it was trained
            on: it then sees frames of 640x480 as they are, and draws finer masks. [px]
        mask_threshold: A pixel belongs to a mask from this probability; chosen on the dev split.
        version: Of the weights, which models fitted to them name.
    """

    height: int = 480
    width: int = 640
    mask_threshold: float = 0.45
    version: str = "6"


@dataclass(frozen=True)
class Config:
    """Everything."""

    heaps: HeapConfig = field(default_factory=HeapConfig)
    views: ViewConfig = field(default_factory=ViewConfig)
    corruption: CorruptionConfig = field(default_factory=CorruptionConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    export: ExportConfig = field(default_factory=ExportConfig)
