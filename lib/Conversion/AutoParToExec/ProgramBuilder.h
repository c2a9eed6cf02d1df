// SPDX-License-Identifier: Apache-2.0
// The program under construction: buffers, ports, instructions, kernels, and where each value of
// the local function lies. The lowerings of the operation families share it.
#pragma once

#include "KernelPool.h"
#include "StridedView.h"

#include "autopar/Conversion/AutoParToExec.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/Views.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SaveAndRestore.h"

namespace mlir::autopar {

/// Words of the rank values that one shard index takes: a cache line.
constexpr int64_t kRankValueWords = 8;

/// What is stored in the library's own layout.
struct PackSource {
  Value root;                   ///< a parameter or a computed value
  SmallVector<int64_t> strides; ///< of the operand, in elements of `root`
  int64_t offset = 0;           ///< where the operand begins, in elements of `root`
};

class ProgramBuilder {
public:
  /// Puts an empty program where `builder` is.
  ProgramBuilder(func::FuncOp function, StringRef name, OpBuilder &builder,
                 const LowerToExecOptions &options);

  /// The whole lowering but the rank tables, with kernels of its own; the function is left empty.
  /// Touches nothing but these. Errors are emitted at the operations.
  LogicalResult lower();
  /// Launches the kernels of `all`, which gets those that it lacks.
  void shareKernels(KernelPool &all);
  /// Which of `meshes` runs this program; the first where there are no stages.
  size_t meshNumber() const { return number; }
  /// The table of a rank that runs this program. No meshes: one rank.
  void createRankTable(OpBuilder &builder, ArrayRef<MeshOp> meshes, int64_t rank);

  //===-- for the lowerings of operation families -----------------------------------------===//

  const LowerToExecOptions &settings() const { return options; }
  /// Where instructions go: the step, or `load` while something is lowered that is known then.
  OpBuilder &step() { return atLoad ? loadBuilder : stepBuilder; }
  OpBuilder &load() { return loadBuilder; }

  /// A new buffer of the type's row-major bytes, or of `bytes`.
  Value createBuffer(const Twine &name, RankedTensorType type, int64_t bytes = -1);
  /// A buffer that only the next instruction uses; null for 0 bytes.
  Value createScratch(Operation *op, int64_t bytes);
  /// A buffer for a result, laid out so that a transpose that follows it becomes free where `fits`
  /// accepts those strides, else row-major. Becomes the view of `result`.
  StridedView createResult(Value result, function_ref<bool(ArrayRef<int64_t>)> fits);
  /// The same for all results of `op`; where they are read as one concatenation, they become views
  /// of its buffer, at offsets of a multiple of kKernelAlignment.
  SmallVector<StridedView> createResults(Operation *op,
                                         function_ref<bool(Value, ArrayRef<int64_t>)> fits);
  /// A row-major buffer for a result; becomes its view.
  Value createRowMajorResult(Value result);

  /// Where a value lies; parameters are given a buffer now, views are looked through.
  StridedView viewOf(Value value);
  /// Whether something in memory shows the value already.
  bool isLowered(Value value) const { return views.contains(value); }
  void setView(Value value, StridedView view) { views[value] = std::move(view); }
  /// `view` from `offset` elements of `elementType` on.
  StridedView viewFrom(const StridedView &view, int64_t offset, Type elementType, Operation *named);
  /// A row-major buffer with the value's elements; inserts a copying kernel where the view is not.
  FailureOr<Value> rowMajorBuffer(Value value);
  /// A buffer in which the value has these strides (a permutation of row-major ones).
  FailureOr<Value> bufferLaidOutAs(Value value, ArrayRef<int64_t> strides);

  /// Where the value lies with nothing between its elements, in any order of dimensions; copied
  /// into order where it does not.
  FailureOr<StridedView> denseView(Value value);

  /// Channels in a block: all of them in a program that has its channels last, as the library wants
  /// it of bytes.
  int64_t blockOf(RankedTensorType type) const {
    return hasChannelsLast ? type.getDimSize(1) : options.channelBlock;
  }
  /// Whether activations of this type may be stored with blocks of channels: [N, C, spatial...]
  /// with C a multiple of the block.
  bool isBlockable(RankedTensorType type) const;
  /// [N, C / block, spatial..., block].
  RankedTensorType blockedType(RankedTensorType type) const;
  exec::Layout blockedLayout() const;
  /// The buffer in which a value lies in blocks; null where it does not.
  Value knownBlocked(Value value) const { return blocked.lookup(value); }
  /// The same; reorders a plain value.
  FailureOr<Value> blockedBuffer(Value value);
  /// A blocked buffer for a result; becomes its place.
  Value createBlockedResult(Value result);

  /// What is behind the views that `value` is, where it is to be packed: at load if it is known
  /// then and nothing reads it but one operation, or products alike as their right side; in the
  /// step if `product` is one of many small ones that do.
  std::optional<PackSource> packSource(Value value, DotGeneralOp product = {});
  /// The packed right side of a product, the same for all products of its geometry; null where it
  /// is read as it lies.
  Value packedForm(DotGeneralOp op, const PackSource &source, exec::MatmulGeometryAttr geometry);
  /// The buffer in which `load` finds a weight: scratch that it reads a parameter into, or what it
  /// computed.
  Value readAtLoad(Value weight);
  std::string nameOf(Value value) const;

  /// Whether a value depends on parameters and constants only, and does not take much more room
  /// than they do: it is computed once, in `load`.
  bool isLoadTime(Value value) const;
  /// Erases a group of the function, whose results nothing reads any more.
  void erase(GroupOp group) {
    loadTimes.erase(group);
    group.erase();
  }
  /// While the returned object lives, instructions go to `load` if `value` is known then.
  llvm::SaveAndRestore<bool> placeWith(Value value) {
    return llvm::SaveAndRestore<bool>(atLoad, atLoad || isLoadTime(value));
  }

  /// The kernel of a group, or of an operation with a kernel of its own; equal contents share one.
  /// `inPlace` is that of emitKernel().
  FailureOr<KernelPool::Kernel> kernelOf(Operation *op, ArrayRef<int64_t> inPlace = {});
  /// Emits a kernel and its launch. `named` gives the instruction its id.
  LogicalResult launch(Operation *op, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                       Operation *named, ArrayRef<int64_t> inPlace = {});
  /// Wraps what `build` makes of values of `inputTypes` into a group and launches it.
  LogicalResult launchGroup(Operation *named, ArrayRef<RankedTensorType> inputTypes,
                            ArrayRef<Value> inputs, ArrayRef<RankedTensorType> resultTypes,
                            ArrayRef<Value> outputs,
                            function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> build);

  /// Lowers one operation of the body (also used for operations made on the way).
  LogicalResult lowerOperation(Operation *op);
  /// Sets id, key, flops, their type and bytes of an instruction after the operation it comes from.
  void describe(Operation *instruction, Operation *op, const Twine &key, double flops);
  /// Index of a peer on the mesh of that number: the one that `ranks` lists for every place of this
  /// mesh, or the one at the same place.
  int64_t peerAt(int64_t mesh, DenseI32ArrayAttr ranks);
  /// Index of a collective group over mesh axes.
  int64_t groupOver(MeshOp mesh, ArrayAttr axes);
  /// Index of a permutation along mesh axes: whose value each position gets.
  int64_t permutationOver(MeshOp mesh, ArrayAttr axes, DenseI64ArrayAttr sources);
  /// The mesh that a collective names; null after an error.
  MeshOp meshOf(Operation *op, FlatSymbolRefAttr mesh, ArrayAttr axes);

private:
  struct Argument {
    std::string name;
    RankedTensorType global;
    ShardingAttr sharding;
    OriginOp origin;              ///< null for an input
    Value buffer;                 ///< null for a parameter that nothing reads in place
    bool isDonated = false;       ///< every step replaces it: `autopar.donated`
    bool isOnHost = false;        ///< lies in host memory: `autopar.on_host`
    std::string control;          ///< a word of the control buffer: `autopar.control`
    DenseI64ArrayAttr limits;     ///< of what an input may hold: `autopar.limits`, or null
    IntegerAttr exception;        ///< `autopar.exception`, or null
    DenseI64ArrayAttr modelShape; ///< `autopar.model_shape`, or null
    StringAttr transposeOf;       ///< `autopar.transpose_of`, or null
    ArrayAttr varying;            ///< `autopar.varying`, or null
    StringAttr missing;           ///< `autopar.missing`, or null
    int64_t microBatches = 1;     ///< that the first dimension counts

    /// Whether it is the same in every step.
    bool isFixed() const { return origin && !isDonated; }
  };
  struct PortInfo {
    RankedTensorType global;
    ShardingAttr sharding;
    bool isMetric;
  };
  struct CollectiveGroup {
    MeshOp mesh;
    ArrayAttr axes;
  };
  /// Numbers of the positions along mesh axes; null: the positions themselves.
  struct NumberedPositions {
    MeshOp mesh;
    ArrayAttr axes;
    DenseI64ArrayAttr numbers;
    bool operator==(const NumberedPositions &other) const {
      return mesh == other.mesh && axes == other.axes && numbers == other.numbers;
    }
  };

  /// What the step repeats.
  struct Rounds {
    explicit Rounds(MLIRContext *context) : round(context), tail(context) {}
    /// Where rounds find a value that one hands on to the next.
    struct Found {
      StridedView view;
      bool isBlocked = false;
      bool isFixed = false; ///< all rounds find the same
    };
    int64_t count = 1, step = 1;
    OpBuilder round, tail; ///< instructions of a round, and of what comes behind all of them
    SmallVector<Found> found;
    DenseMap<Operation *, Operation *> handedOn, handedTo; ///< buffers
  };

  struct Readers {
    int64_t products = 0; ///< of one micro-batch, of which it is the right side
    llvm::StringSet<> names;
    Type multiplied;      ///< the left side of one of them
    bool areAlike = true; ///< all have left sides of that type
    int64_t others = 0;
  };
  struct PackedForm {
    int64_t offset;
    exec::MatmulGeometryAttr geometry;
    Value buffer;
  };
  struct PackedWeight {
    bool pays = false;
    SmallVector<PackedForm> forms;
  };

  void readGivenNames();
  /// A name for what the model does not name: `name`, longer where the model uses it itself.
  std::string unusedName(std::string name) const;
  LogicalResult readArguments();
  LogicalResult readArgument(BlockArgument argument, Argument &info);
  LogicalResult bindControl(BlockArgument argument, const Argument &info);
  int64_t countStepReads(Value value) const;
  /// Counts what reads a value in the step, itself or through views.
  void countReaders(Value value, Readers &readers) const;
  /// Whether who multiplies by a parameter or computed value should read it packed.
  bool paysToPack(Value root);
  bool isReadAtLoadOnly(Value parameter) const;
  LogicalResult lowerNow(Operation *op);
  LogicalResult lowerReturn(func::ReturnOp op);
  LogicalResult lowerResult(func::ReturnOp op, unsigned number);
  LogicalResult lowerDonatedResults(func::ReturnOp op);
  /// The donated argument whose next value a result is; -1 for an output.
  int64_t donorOf(unsigned result);
  LogicalResult checkDonor(unsigned result);
  /// The operand of `op` over which its result is stored; -1 if there is none.
  int64_t operandToReplace(Operation *op, unsigned result);
  /// The buffer of the donated argument that a result is the next value of, where a kernel may
  /// write it; null if there is none.
  Value bufferOfNextValue(OpResult result);
  LogicalResult lowerConstant(ConstantOp op);
  /// A buffer that a kernel fills with the one number of a constant, where it is first used.
  Value fillConstant(ConstantOp op);
  LogicalResult lowerShardIndex(ShardIndexOp op);
  LogicalResult beginRounds(RoundBeginOp op);
  LogicalResult endRounds(RoundEndOp op);
  /// Lets the next round find `value` where this one found what it was handed on.
  LogicalResult handOn(Value value, const Rounds::Found &found, Operation *op);
  /// Lets what the last round leaves of `value` be `result` behind it.
  LogicalResult leaveBehind(Value value, Value result);
  /// Whether two buffers may be one in all rounds.
  bool mayBeOne(const StridedView &left, const StridedView &found);
  /// Whether an argument, a constant, rank values or the control buffer lie there.
  bool isLasting(Value buffer) const;
  LogicalResult lowerRoundSlice(RoundSliceOp op);
  LogicalResult lowerInsertPart(InsertPartOp op);
  /// Bytes of a buffer that lie as many positions further in each round as it has micro-batches.
  Value partInRounds(Value whole, int64_t position, RankedTensorType part, Operation *named);
  /// The place in the list, at the end where it was not there.
  static int64_t numberOf(SmallVector<NumberedPositions> &list, NumberedPositions wanted);
  LogicalResult lowerKernel(Operation *op);
  void reorder(Value from, exec::Layout fromLayout, Value to, exec::Layout toLayout, Value value);
  StridedView viewThrough(ViewOpInterface op);
  bool liesRowMajor(Value value);
  /// isLoadTime() of what an operation computes, asked for once.
  bool runsAtLoad(Operation *op) const;
  /// A kernel that repeats the views between a row-major value and `value`.
  LogicalResult copyThroughViews(Value value, Value copy);
  /// Puts the operations of a group into the function.
  LogicalResult dissolveViews(GroupOp group);
  void createArgumentPorts();
  exec::PortOp createPort(exec::Role role, StringRef name, Value buffer, RankedTensorType global,
                          ShardingAttr sharding, OriginOp origin = {}, ElementsAttr value = {});

  func::FuncOp function;
  ModuleOp module;
  LowerToExecOptions options;
  exec::ProgramOp program;
  KernelPool kernels;
  size_t number = 0; ///< of the mesh that runs it
  SymbolTable symbols;
  OpBuilder declarations, loadBuilder, stepBuilder;
  std::optional<Rounds> rounds;
  bool atLoad = false;
  bool readsAtLoad = false; ///< whether the operation that is lowered now is one of `load`
  bool hasChannelsLast = false;
  SmallVector<Argument> arguments;
  DenseMap<Value, StridedView> views;
  DenseMap<Value, Value> blocked;       ///< values that lie in blocks of channels
  DenseMap<Value, Value> loaded;        ///< packed parameters: the scratch that load reads
  DenseMap<Value, PackedWeight> packed; ///< what products read as their right side
  SmallVector<PortInfo> ports;
  DenseMap<Attribute, Value> constants;
  int64_t constantCount = 0;
  llvm::StringSet<> givenNames;
  SmallVector<CollectiveGroup> collectiveGroups;
  Attribute timeUs;           ///< of the operation that is lowered, until an instruction has it
  bool isMessageTime = false; ///< it is a collective's or message's
  SmallVector<NumberedPositions> shardIndices;
  SmallVector<NumberedPositions> permutations;              ///< whose value each position gets
  SmallVector<std::pair<int64_t, DenseI32ArrayAttr>> peers; ///< meshes, ranks
  Value rankValues;
  Value controlWords;                ///< the control buffer, where something reads it
  SmallVector<int64_t> initialWords; ///< what it holds before the first step
  llvm::DenseSet<Value> taken;       ///< buffers that belong to arguments, constants, outputs
  SmallVector<BlockArgument> donors; ///< by result of the function, null for an output
  mutable DenseMap<Operation *, bool> loadTimes; ///< of operations of the function
};

/// The lowerings of operation families.
/// A group with a product or convolution: library call with what the library can apply, a kernel
/// for the rest.
LogicalResult lowerLibraryGroup(ProgramBuilder &program, GroupOp group);
/// A group on values that lie in blocks of channels, rewritten to work on the blocks; false where
/// it reads none or cannot be.
FailureOr<bool> lowerBlockedGroup(ProgramBuilder &program, GroupOp group);
LogicalResult lowerCollective(ProgramBuilder &program, CollectiveOpInterface op);
LogicalResult lowerPermute(ProgramBuilder &program, PermuteOp op);
/// A value that is stored in host memory, or fetched from there.
LogicalResult lowerStoreOnHost(ProgramBuilder &program, StoreOnHostOp op);
LogicalResult lowerFetchFromHost(ProgramBuilder &program, FetchFromHostOp op);
/// A send or a receive.
LogicalResult lowerMessage(ProgramBuilder &program, Operation *op);
/// Whether the library of the target has products with results of this type.
bool libraryKnows(Type elementType, Target target);

} // namespace mlir::autopar
