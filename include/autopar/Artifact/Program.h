// SPDX-License-Identifier: Apache-2.0
// What compiled.bin says, as plain values: the program of a rank class (buffers, ports,
// instructions, timetable) and the table of one rank (groups, peers, shard boxes). The compiler
// fills these structs and hands them to the Writer; the Reader gives the same structs back to the
// runtime. A program holds no rank numbers; whatever differs between ranks of a class stands in the
// rank table.
#pragma once

#include "autopar/Base/DataType.h"
#include "autopar/Base/Digest.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace autopar::artifact {

/// Where a buffer lives. One arena per space and rank; offsets are planned at compile time.
enum class Space : uint8_t { Device = 0, PinnedHost = 1, Disk = 2 };
constexpr size_t kSpaceCount = 3;

/// The queue an instruction runs on. Instructions of one queue run in program order.
enum class Queue : uint8_t {
  Compute = 0,
  Communication = 1,
  CopyIn = 2,
  CopyOut = 3,
  Host = 4,
  Receive = 5,
  Send = 6,
};
constexpr size_t kQueueCount = 7;
/// Whether instructions of a queue may end in another order than they start in: messages to
/// different peers do not wait for each other.
constexpr bool endsInAnyOrder(Queue queue) {
  return queue == Queue::Receive || queue == Queue::Send;
}

/// A range of an arena. Buffers may overlap when they are never live at the same time, and a view
/// of another buffer is a buffer of its own over the same bytes. Row-major, `bytes` >= elements *
/// size.
struct Buffer {
  std::string name;
  Space space = Space::Device;
  int64_t offset = 0; ///< bytes from the arena's start, a multiple of the element size (64 is best)
  int64_t bytes = 0;
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape; ///< local shape, padding of uneven shards included
  /// A timetable row with slot s uses the bytes at offset + s * slotStride; slots = 1 for most.
  int32_t slots = 1;
  int64_t slotStride = 0;
  int32_t viewOf = -1; ///< the buffer that it shows bytes of, itself no view; -1: its own
};

// ---- Ports -------------------------------------------------------------------------------------

/// What a named tensor of the program is to the outside.
enum class Role : uint8_t { Input = 0, Output = 1, Parameter = 2, State = 3, Metric = 4 };

/// Where a parameter's numbers come from. The stored tensor is the whole (global) tensor,
/// row-major, little-endian, of the port's dtype.
enum class SourceKind : uint8_t {
  None = 0,      ///< not a parameter, or a state that starts at zero
  File = 1,      ///< bytes [offset, offset + length) of an external file
  Constants = 2, ///< bytes [offset, offset + length) of the CONSTANTS section
  Absent = 3,    ///< the model came without weights; running needs `--init` if they are not drawn
};
/// Chunk size of Source::chunkDigests, in bytes.
constexpr int64_t kChunkBytes = int64_t{4} << 20;

struct Source {
  SourceKind kind = SourceKind::None;
  std::string path; ///< File only: relative to the artifact's folder, or absolute
  int64_t offset = 0;
  int64_t length = 0;
  Digest digest; ///< File only: of all `length` bytes
  /// File only, optional: one digest per 4 MiB of the range (the last may be shorter), so that a
  /// rank verifies only what it reads.
  std::vector<Digest> chunkDigests;
  /// Absent only, may be empty: how it is drawn without `--init`, in its words.
  std::string drawn;
};

/// Values that an integer input may take: [least, most], and `exception`.
struct Limits {
  int64_t least = 0, most = 0;
  std::optional<int64_t> exception;
};

/// A dimension that has as many positions as a step is given: all that share the name of an extent
/// miss equally many steps of those in their port's shape.
struct VaryingDim {
  int32_t dim = 0; ///< of the shape by which a caller knows the tensor
  std::string extent;
  int64_t least = 1; ///< positions
  int64_t step = 1;  ///< positions
};

/// A named tensor that enters or leaves. The part that a rank holds stands in RankTable::ports at
/// the same index.
struct Port {
  Role role = Role::Input;
  std::string name;
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape; ///< global shape
  /// Local buffer, or -1 for a parameter that only Read instructions fetch (so that a weight that
  /// is packed at load time needs no room of its own afterwards).
  int32_t buffer = -1;
  Source source;
  /// Of a scalar metric: an instruction that commits runs only where this is a finite number.
  bool guards = false;
  /// Of a metric of one float: an evaluation gives it.
  bool evaluated = false;
  /// Inputs only: what lies outside has no meaning to the program.
  std::optional<Limits> limits = {};
  /// Above 1, the first two dimensions are micro-batches x samples; outside they are one.
  int64_t microBatches = 1;
  /// Parameters and states only, empty where it is `shape`: the shape that the model has.
  std::vector<int64_t> modelShape = {};
  /// Of a matrix that is a parameter or state: the name of the matrix in the model's source that it
  /// is the transpose of; empty where it is the source's own, or nothing is known.
  std::string transposeOf = {};
  std::vector<VaryingDim> varying = {}; ///< inputs and outputs only
  /// Of an input, an i64 scalar: the extent of which it says how many positions are missing; the
  /// runtime sets it. Empty for all others.
  std::string missing = {};

  /// The shape by which a caller knows the tensor.
  std::vector<int64_t> callerShape() const;
  /// Its name and shape in files of weights: those of the model's source, as far as they are known.
  std::string sourceName() const { return transposeOf.empty() ? name : transposeOf; }
  std::vector<int64_t> sourceShape() const;
};

/// What "load" leaves in a buffer for all steps, told by how it is made: programs that make a value
/// alike, of the same parts of the same parameters, may hold it once.
struct MadeValue {
  int32_t buffer = -1; ///< no view
  /// Of kernels, geometries and names of parameters. Where a Pack writes the buffer, its layout,
  /// which this machine's library decides, is not in it.
  Digest recipe;
  std::vector<int32_t> ports; ///< the parameters that it is made of
};

// ---- Instructions ------------------------------------------------------------------------------

/// Runs kernel symbol Program::kernels[kernel]: `void name(void *const *args, int64_t begin,
/// int64_t end)` computes the outer iterations [begin, end) of [0, extent). args are the buffers'
/// addresses; the last `outputs` of them are written. Iterations are independent: the device may
/// split [0, extent) over threads in any way.
///
/// For CUDA the symbol is a kernel of the class's module whose parameters are the buffers' device
/// addresses, one u64 each, in the order of args: nothing else is passed. One launch of `blocks` x
/// 1 x 1 blocks of `threads` x 1 x 1 threads does all of [0, extent). What a block shares
/// statically is not counted in sharedBytes. On a CPU the three are 0.
struct Launch {
  int32_t kernel = 0;
  std::vector<int32_t> args;
  int64_t extent = 1;
  int32_t outputs = 1;
  int64_t blocks = 0;
  int32_t threads = 0;
  int32_t sharedBytes = 0; ///< dynamic shared memory of a block
};
constexpr int64_t kMostBlocks = 0x7fffffff;
constexpr int32_t kMostBlockThreads = 1024;
constexpr int32_t kMostSharedBytes = 227 * 1024;

enum class Epilogue : uint8_t {
  None = 0,
  Relu = 1,
  GeluErf = 2,
  GeluTanh = 3,
  // The others are of products of two matrices alone.
  /// Times the derivative of GeluTanh at the residual, which is not added.
  GeluTanhGrad = 4,
  /// Relu, and a mask of where its result is positive as `aux`.
  ReluAux = 5,
  /// GeluTanh, and what it was given as `aux`, which lies as c does.
  GeluTanhAux = 6,
  /// Times the derivative of Relu by the mask that is the residual.
  ReluGrad = 7,
  /// No activation; the sums of a, or of b, over the terms of the product as `aux`, of c's type.
  SumsOfA = 8,
  SumsOfB = 9,
};
constexpr bool storesAux(Epilogue epilogue) {
  return epilogue == Epilogue::ReluAux || epilogue == Epilogue::GeluTanhAux ||
         epilogue == Epilogue::SumsOfA || epilogue == Epilogue::SumsOfB;
}
constexpr bool isGradient(Epilogue epilogue) {
  return epilogue == Epilogue::GeluTanhGrad || epilogue == Epilogue::ReluGrad;
}
/// What an activation behind a product is where it stores no `aux`; None where there is none.
constexpr Epilogue activationOf(Epilogue epilogue) {
  return epilogue == Epilogue::ReluAux       ? Epilogue::Relu
         : epilogue == Epilogue::GeluTanhAux ? Epilogue::GeluTanh
         : epilogue > Epilogue::GeluTanh     ? Epilogue::None
                                             : epilogue;
}
/// A mask has a bit per element, the first one lowest, in lines of a multiple of so many: the
/// rows of c, or its columns where they lie one after the other.
constexpr int64_t kMaskStep = 128;

/// A strided view of an operand: sizes and strides in elements, outermost first.
struct StridedShape {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  bool operator==(const StridedShape &) const = default;
};

/// [batch..., M, K] x [batch..., K, N] -> [batch..., M, N], all of one rank >= 2; a batch dim of
/// size 1 in a or b broadcasts. c = epilogue(scale * (a b + bias) + residual). bias has N elements
/// of type cType unless biasType says otherwise; residual has c's type, dims and strides, but for
/// that of ReluGrad.
struct MatmulGeometry {
  DataType aType = DataType::F32, bType = DataType::F32, cType = DataType::F32;
  DataType biasType = DataType::F32;
  StridedShape a, b, c;
  bool hasBias = false;
  bool hasResidual = false;
  Epilogue epilogue = Epilogue::None;
  float scale = 1.0f;
  /// b is stored in the layout that a Pack instruction with this same geometry wrote; b.strides
  /// then describe the plain source of that Pack.
  bool packedB = false;
};

struct Matmul {
  MatmulGeometry geometry;
  int32_t a = -1, b = -1, c = -1;
  int32_t bias = -1;
  int32_t residual = -1; ///< may be the same buffer as c where it is added (accumulate)
  int32_t scratch = -1;  ///< of scratchBytes(geometry, threads) bytes, -1 when that is 0
  int32_t aux = -1;      ///< the second result that the epilogue stores
};

/// How an activation is stored. Blocked8/16 are oneDNN's nChw8c/nChw16c: channels padded up to the
/// block (padding is zero) and the block innermost.
enum class Layout : uint8_t { Plain = 0, ChannelsLast = 1, Blocked8 = 2, Blocked16 = 3 };

/// x [N, C, spatial...], w [Cout, C/groups, spatial...] (plain, row-major), y [N, Cout,
/// spatial...]: logical shapes, whatever the layout; 1 to 3 spatial dims. y = epilogue(conv(x, w) +
/// bias + residual); bias has Cout elements.
/// Winograd: F(2x2, 3x3), 2.25 times fewer multiplications than the definition and a few roundings
/// more.
enum class ConvolutionAlgorithm : uint8_t { Direct = 0, Winograd = 1 };
/// The gradient of the input reads that of the output as x and the filter as w, the gradient of the
/// filter reads the input as x and the gradient of the output as w; y is the gradient.
enum class ConvolutionKind : uint8_t { Forward = 0, InputGradient = 1, FilterGradient = 2 };

struct ConvolutionGeometry {
  DataType xType = DataType::F32, wType = DataType::F32, yType = DataType::F32;
  DataType biasType = DataType::F32;
  std::vector<int64_t> x, w, y;
  std::vector<int64_t> strides, padsBegin, padsEnd,
      dilations; ///< one per spatial dim; dilation 1 = dense
  int64_t groups = 1;
  Layout xLayout = Layout::Plain;
  Layout yLayout = Layout::Plain; ///< of y; of w where y is the gradient of a filter
  bool hasBias = false;
  bool hasResidual = false;
  Epilogue epilogue = Epilogue::None;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::Direct;
  bool packedW = false; ///< w is in the layout that a Pack with this same geometry wrote
  ConvolutionKind kind = ConvolutionKind::Forward;
  bool operator==(const ConvolutionGeometry &) const = default;

  /// What x, w and y are to the convolution, of whatever kind.
  const std::vector<int64_t> &input() const {
    return kind == ConvolutionKind::InputGradient ? y : x;
  }
  const std::vector<int64_t> &filter() const {
    return kind == ConvolutionKind::FilterGradient ? y : w;
  }
  const std::vector<int64_t> &output() const {
    return kind == ConvolutionKind::Forward ? y : kind == ConvolutionKind::InputGradient ? x : w;
  }
};

struct Convolution {
  ConvolutionGeometry geometry;
  int32_t x = -1, w = -1, y = -1;
  int32_t bias = -1;
  int32_t residual = -1; ///< of y's type and layout; may be the same buffer as y
  int32_t scratch = -1;
};

/// output = softmax(scale * query key^T + bias) value, or its gradient. `operands`: query [B, H, S,
/// d], key [B, G, T, d], value [B, G, T, dv] and output [B, H, S, dv]; of the gradient also those
/// of output, query, key and value. G divides H: head h reads group h / (H / G). All of one type,
/// with a last stride of 1.
struct AttentionGeometry {
  DataType type = DataType::F32;
  std::vector<StridedShape> operands;
  DataType biasType = DataType::F32;
  StridedShape bias; ///< [B, H, S, T], stride 0 where it is repeated; no dims: there is none
  float scale = 1.0f;
  bool causal = false; ///< row i of the queries sees the keys up to i + T - hiddenKeys - S
  int64_t window = 0;  ///< of the keys that a causal row sees, the last so many; 0: all
  /// Keys behind those that any row sees: of a triangle of which this rank has some rows. 0 in
  /// programs.
  int64_t hiddenKeys = 0;
  bool operator==(const AttentionGeometry &) const = default;

  bool isGradient() const { return operands.size() == 8; }
  bool hasBias() const { return !bias.dims.empty(); }
};

struct Attention {
  AttentionGeometry geometry;
  /// Query, key, value; of the gradient also output, row sums and gradient of the output; then the
  /// bias, if there is one. Row sums are the logarithms of sums of exponentials, f32 [B, H, S].
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs; ///< output and row sums; gradients of query, key and value
  int32_t scratch = -1;
  /// The rows are one of so many equal parts of a triangle's, which one stands in
  /// RankTable::rankValues at this index; -1: they are all.
  int32_t shardValue = -1;
  int64_t parts = 1;

  /// As the rank with these values runs it.
  AttentionGeometry geometryOf(std::span<const int64_t> rankValues) const {
    AttentionGeometry own = geometry;
    if (shardValue >= 0)
      own.hiddenKeys = (parts - 1 - rankValues[size_t(shardValue)]) * geometry.operands[0].dims[2];
    return own;
  }
};

/// Rows times the matrix of their group, or the gradient of the matrices: of each group the sum
/// over its rows of outer products. Which group a row is of stands in a buffer; a row of none is
/// zero, and counts nowhere. `rows` are those of the result, of the gradient those of its
/// cotangent. Row dimensions are alike, the last stride of both is 1. Matrices are row-major
/// [groups, depth, columns], [groups, columns, depth] if `transposed`.
struct GroupedProductGeometry {
  DataType type = DataType::F32; ///< of both operands
  DataType resultType = DataType::F32;
  DataType groupType = DataType::I64; ///< or I32
  StridedShape lhs;                   ///< [rows..., depth]
  StridedShape rows;                  ///< [rows..., columns]
  int64_t groups = 0;
  bool transposed = false;
  bool isGradient = false; ///< then not transposed
  /// Where a kernel makes the matrices: how many of a matrix's columns it makes at a time, a
  /// divisor of them; 0: they lie in memory.
  int64_t madeColumns = 0;
  bool operator==(const GroupedProductGeometry &) const = default;

  int64_t depth() const { return lhs.dims.back(); }
  int64_t columns() const { return rows.dims.back(); }
  std::vector<int64_t> matrices() const {
    return {groups, transposed ? columns() : depth(), transposed ? depth() : columns()};
  }
};

/// A kernel that makes `madeColumns` columns of one matrix (rows where it is transposed),
/// row-major, for matrices that stand nowhere in memory.
struct MatrixMaker {
  int32_t kernel = -1; ///< of Program::kernels; reads `inputs`, writes the columns
  int64_t extent = 0;  ///< its outer iterations
  std::vector<int32_t> inputs;
  /// For each input, bytes from what one matrix is made of to what the next is, and from what some
  /// columns are made of to what the next ones are.
  std::vector<int64_t> matrixSteps, columnSteps;
};

struct GroupedProduct {
  GroupedProductGeometry geometry;
  int32_t lhs = -1;
  int32_t rhs = -1;   ///< the matrices, of the gradient `rows`; -1 where `maker` makes them
  int32_t group = -1; ///< a number for each row, row-major
  int32_t result = -1;
  int32_t scratch = -1;
  std::optional<MatrixMaker> maker = std::nullopt; ///< if geometry.madeColumns > 0
};

/// Stores a plain weight (b of a matmul, w of a convolution) in the layout that the library prefers
/// for that geometry. dst has packedBytes(geometry) bytes.
struct Pack {
  int32_t src = -1, dst = -1;
  std::variant<MatmulGeometry, ConvolutionGeometry> geometry;
};

/// Copies a tensor from one activation layout to another (dims: logical [N, C, spatial...]).
struct Reorder {
  int32_t src = -1, dst = -1;
  DataType dtype = DataType::F32;
  std::vector<int64_t> dims;
  Layout from = Layout::Plain, to = Layout::Plain;
};

enum class CollectiveKind : uint8_t {
  AllReduce = 0,     ///< out[count] = reduce over ranks of in[count]
  AllGather = 1,     ///< out[n * count]: in of rank 0, in of rank 1, ...
  ReduceScatter = 2, ///< out[count / n] = own part of the reduction of in[count]; n divides count
  AllToAll = 3,      ///< in and out [count], n equal parts; part j goes to rank j; n divides count
  Broadcast = 4,     ///< out[count] = in[count] of the group's member 0
};
enum class Reduction : uint8_t { Sum = 0, Max = 1, Min = 2, Prod = 3 };

/// Contiguous buffers, rank-major as in NCCL; n is the size of the group. Reductions run in the
/// order of the group's members, so that results are bit-equal under any launcher. AllReduce,
/// AllToAll and Broadcast may work in place (input == output).
struct Collective {
  CollectiveKind kind = CollectiveKind::AllReduce;
  int32_t input = -1, output = -1;
  int32_t group = 0; ///< index into RankTable::groups
  Reduction reduction = Reduction::Sum;
  DataType dtype = DataType::F32;
  int64_t count = 0; ///< elements of the input on each rank
};

/// Each rank sends its input to one rank and receives from one (RankTable::permutations); a rank
/// that receives from nobody gets zeros. bytes of both buffers are moved.
struct Permute {
  int32_t input = -1, output = -1;
  int32_t permutation = 0;
  int64_t bytes = 0;
};

struct Send {
  int32_t buffer = -1;
  int32_t peer = 0; ///< index into RankTable::peers
  int64_t bytes = 0;
  int32_t tag = 0;
};
struct Recv {
  int32_t buffer = -1;
  int32_t peer = 0;
  int64_t bytes = 0;
  int32_t tag = 0;
};

struct Copy {
  int32_t src = -1;
  int64_t srcOffset = 0; ///< bytes
  int32_t dst = -1;
  int64_t dstOffset = 0;
  int64_t bytes = 0;
};

/// Fetches this rank's box of a parameter port into a buffer whose shape is the padded local shape
/// (padding becomes zero). For "load" entries.
struct Read {
  int32_t port = 0;
  int32_t dst = -1;
};

using Payload = std::variant<Launch, Matmul, Convolution, Pack, Reorder, Collective, Permute, Send,
                             Recv, Copy, Read, Attention, GroupedProduct>;

/// An instruction of an entry that earlier rows of the timetable ran.
struct Await {
  int32_t entry = 0;
  int32_t instruction = 0;
};

struct Instruction {
  Queue queue = Queue::Compute;
  /// Earlier instructions of the same entry that must be complete first. Order within one queue
  /// needs no mention.
  std::vector<int32_t> after;
  /// Of each of these the latest run, in a row before this one, must be complete; where no earlier
  /// row ran its entry, nothing is waited for.
  std::vector<Await> awaits;
  std::string id;         ///< op id, e.g. "h.0/attn/dot"
  std::string profileKey; ///< e.g. "dot/4x64x128/f32"
  /// What the cost model is asked with: FLOPs and their type, bytes read and written. Of
  /// communication, the payload says it.
  int64_t flops = 0;
  int64_t bytes = 0;
  DataType arithmetic = DataType::F32;
  Payload payload;
  /// A metric that is evaluated depends on it: an evaluation runs these instructions and no others.
  bool evaluated = false;
  /// It writes what lasts from step to step. It waits until the guards are known, and is left out
  /// where one of them is not finite.
  bool commits = false;

  /// What it is called in a row of a slot: `id@7` of slot 4 is `id@11`, as what runs once per
  /// micro-batch has its number behind its name and a slot counts micro-batches.
  std::string idIn(int32_t slot) const;
};

/// A named list of instructions. "load" runs once after the parameters were read; others run as the
/// timetable says.
struct Entry {
  std::string name;
  std::vector<Instruction> instructions;

  /// Where one of the instructions stands, for messages: "entry step, instruction 3 (fc)".
  std::string placeOf(const Instruction &instruction) const {
    return "entry " + name + ", instruction " + std::to_string(&instruction - instructions.data()) +
           " (" + instruction.id + ")";
  }
};

/// One row of a step: run an entry with its slot (micro-batch). Rows follow each other as if they
/// were one list: queues go on in order, and what else is waited for instructions say.
struct TimetableRow {
  int32_t entry = 0;
  int32_t slot = 0;
};

/// Words (8 bytes each) of the control buffer. Values that change per step live here and nowhere
/// else. Words without a name are free.
enum class ControlWord : int32_t {
  Step = 0,         ///< i64, counts from 0
  LearningRate = 2, ///< f64
  SkippedSteps = 3, ///< i64, steps so far that changed nothing, their loss not being finite
  Evaluation = 5,   ///< i64, 1 while the loss is evaluated, else 0
};
constexpr int64_t kControlWords = 16;

struct Program {
  std::string name;
  std::array<int64_t, kSpaceCount> arenaBytes{};
  std::vector<Buffer> buffers;
  std::vector<Port> ports;
  /// None: neither these nor views are told, as in artifacts of compilers before that; then nothing
  /// is held together with another program.
  std::optional<std::vector<MadeValue>> madeValues;
  std::vector<std::string> kernels; ///< symbols in the KERNELS or PTX section of this class
  std::vector<Entry> entries;
  std::vector<TimetableRow> timetable; ///< one step
  int32_t controlBuffer = -1;          ///< >= kControlWords * 8 bytes, or -1 when nothing reads it
  int32_t rankValuesBuffer = -1; ///< i64 words, filled from RankTable::rankValues at load, or -1
  int32_t plannedThreads = 1;    ///< threads per rank that scratch sizes were planned for

  /// The buffer that a view shows bytes of; another buffer itself.
  int32_t rootOf(int32_t buffer) const {
    int32_t root = buffers[size_t(buffer)].viewOf;
    return root < 0 ? buffer : root;
  }
};

// ---- Rank tables -------------------------------------------------------------------------------

/// An ordered list of world ranks that hold a collective; the own position is where the rank itself
/// stands.
struct Group {
  std::vector<int32_t> members;
};

/// -1 = nobody.
struct Permutation {
  int32_t sendTo = -1;
  int32_t receiveFrom = -1;
};

/// The part of a port's global tensor that a rank holds: the valid box in global coordinates. The
/// local buffer may be larger (padded at the end of each dim).
struct PortShard {
  std::vector<int64_t> offset;
  std::vector<int64_t> extent;
  int32_t replica = 0; ///< among ranks with the same box; replica 0 writes outputs
};

/// In place of a rank.
constexpr int32_t kNobody = -1;

struct RankTable {
  int32_t rankClass = 0;
  std::vector<Group> groups;
  std::vector<int32_t> peers; ///< ranks, or kNobody: what is sent there is left out
  std::vector<Permutation> permutations;
  std::vector<int64_t> rankValues;
  std::vector<PortShard> ports; ///< one per port of the class's program
};

/// What the machine must offer. Checked before anything executable is mapped.
struct Target {
  std::string architecture = "x86-64"; ///< or "cuda"
  /// x86-64: psABI level "x86-64", "-v2", "-v3", "-v4". cuda: see CudaTarget.h.
  std::string features = "x86-64-v3";

  bool isCuda() const { return architecture == "cuda"; }
};

} // namespace autopar::artifact
