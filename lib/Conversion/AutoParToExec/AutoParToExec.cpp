// SPDX-License-Identifier: Apache-2.0
// The walk over the local function: arguments become ports, operations instructions, and the module
// ends up holding a program, its kernels and the rank tables.
#include "ConvolutionOperands.h"
#include "LibraryCall.h"
#include "MadeMatrices.h"

#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/DrawnOrigin.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Interfaces/RunSideBySide.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/ManyParts.h"
#include "autopar/Transforms/Stages.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/SaveAndRestore.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_AUTOPARTOEXECPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

ProgramBuilder::ProgramBuilder(func::FuncOp function, StringRef name, OpBuilder &builder,
                               const LowerToExecOptions &options)
    : function(function), module(function->getParentOfType<ModuleOp>()), options(options),
      kernels(module.getLoc()), symbols(module), declarations(function.getContext()),
      loadBuilder(function.getContext()), stepBuilder(function.getContext()) {
  if (options.target == Target::Cuda) {
    this->options.packWeights = false;
    this->options.channelBlock = 1;
  }
  if (this->options.channelBlock == 0)
    this->options.channelBlock = autopar::channelBlock();
  bool ofBytes = false;
  function->walk([&](autopar::ConvolutionOp op) { ofBytes |= isContractionOfBytes(op); });
  hasChannelsLast = ofBytes || favoursChannelsLast(*this, function);
  Location loc = module.getLoc();
  OpBuilder::InsertionGuard guard(builder);
  auto kernelsName = FlatSymbolRefAttr::get(function.getContext(), "kernels");
  program = exec::ProgramOp::create(builder, loc, name, DenseI64ArrayAttr(), options.threads,
                                    kernelsName);
  if (auto stage = function->getAttrOfType<IntegerAttr>(kStageAttribute))
    number = stage.getInt();
  Block *body = builder.createBlock(&program.getBody());
  auto entry = [&](StringRef name, OpBuilder &into) {
    builder.setInsertionPointToEnd(body);
    auto op = exec::EntryOp::create(builder, loc, name);
    into.setInsertionPointToStart(builder.createBlock(&op.getBody()));
    return op;
  };
  auto load = entry("load", loadBuilder);
  SmallVector<Attribute> rows;
  SmallVector<int64_t> slots;
  auto row = [&](exec::EntryOp of, int64_t slot) {
    rows.push_back(FlatSymbolRefAttr::get(of.getSymNameAttr()));
    slots.push_back(slot);
  };
  auto begins = function.getBody().front().getOps<RoundBeginOp>();
  if (begins.empty()) {
    row(entry("step", stepBuilder), 0);
  } else {
    auto begin = *begins.begin();
    rounds.emplace(function.getContext());
    rounds->count = begin.getCount();
    rounds->step = begin.getStep();
    row(entry("step.head", stepBuilder), 0);
    exec::EntryOp round = entry("step.round", rounds->round);
    for (int64_t number = 0; number < rounds->count; ++number)
      row(round, number * rounds->step);
    row(entry("step.tail", rounds->tail), 0);
  }
  builder.setInsertionPointToEnd(body);
  exec::TimetableOp::create(builder, loc, builder.getArrayAttr(rows),
                            builder.getDenseI64ArrayAttr(slots));
  declarations.setInsertionPoint(load);
}

LogicalResult ProgramBuilder::lower() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected one block: region operations must be lowered before");
  if (failed(verifyStep(function)) || failed(readArguments()))
    return failure();
  // From here on the order of operations is fixed.
  for (FenceOp fence : llvm::make_early_inc_range(function.getOps<FenceOp>())) {
    fence.replaceAllUsesWith(fence.getInputs());
    fence.erase();
  }
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front())) {
    timeUs = op.getAttr(kOpTimeAttribute);
    isMessageTime = isa<CollectiveOpInterface, SendOp, ReceiveOp>(op);
    if (auto result = dyn_cast<func::ReturnOp>(op)) {
      // A parameter that is returned as it is, or seen otherwise, lies somewhere.
      for (Value operand : result.getOperands())
        if (BlockArgument parameter = parameterIn(operand))
          (void)viewOf(parameter);
      createArgumentPorts();
      if (failed(lowerReturn(result)))
        return failure();
    } else if (failed(lowerOperation(&op))) {
      return failure();
    }
  }
  function.eraseBody();
  return success();
}

void ProgramBuilder::shareKernels(KernelPool &all) {
  llvm::StringMap<FlatSymbolRefAttr> names = all.take(kernels);
  program.walk([&](exec::LaunchOp launch) {
    if (FlatSymbolRefAttr name = names.lookup(launch.getKernel()); name != launch.getKernelAttr())
      launch.setKernelAttr(name);
  });
  program.walk([&](exec::GroupedProductOp product) {
    if (product.getMaker())
      product.setMakerAttr(names.lookup(*product.getMaker()));
  });
}

LogicalResult ProgramBuilder::lowerOperation(Operation *op) {
  bool known = op->getNumResults() > 0 && isLoadTime(op->getResult(0));
  llvm::SaveAndRestore scope(atLoad, atLoad || known), reader(readsAtLoad, readsAtLoad || known);
  return lowerNow(op);
}

LogicalResult ProgramBuilder::lowerNow(Operation *op) {
  if (auto group = dyn_cast<GroupOp>(op)) {
    if (isView(group))
      return dissolveViews(group);
    if (productThatMakes(*this, group))
      return success(); // has its kernel make them
    bool callsLibrary =
        llvm::any_of(group.getBody().front(), llvm::IsaPred<DotGeneralOp, autopar::ConvolutionOp>);
    if (callsLibrary)
      return lowerLibraryGroup(*this, group);
    FailureOr<bool> blocked = lowerBlockedGroup(*this, group);
    return failed(blocked) ? failure() : *blocked ? success() : lowerKernel(group);
  }
  if (isView(op))
    return success(); // looked through by viewOf
  if (isa<ConcatOp>(op) && isLowered(op->getResult(0)))
    return success(); // written in its parts
  if (auto concat = dyn_cast<ConcatOp>(op); concat && concat.getInputs().size() > kMostParts)
    return lowerConcat(*this, concat);
  if (auto constant = dyn_cast<autopar::ConstantOp>(op))
    return lowerConstant(constant);
  if (auto index = dyn_cast<ShardIndexOp>(op))
    return lowerShardIndex(index);
  if (auto begin = dyn_cast<RoundBeginOp>(op))
    return beginRounds(begin);
  if (auto end = dyn_cast<RoundEndOp>(op))
    return endRounds(end);
  if (auto slice = dyn_cast<RoundSliceOp>(op))
    return lowerRoundSlice(slice);
  if (auto insert = dyn_cast<InsertPartOp>(op))
    return lowerInsertPart(insert);
  if (auto dot = dyn_cast<DotGeneralOp>(op))
    return lowerDotGeneral(*this, dot, {}, dot.getResult());
  if (auto convolution = dyn_cast<autopar::ConvolutionOp>(op))
    return lowerConvolution(*this, convolution, {}, convolution.getResult());
  if (isa<ConvolutionInputGradOp, ConvolutionFilterGradOp>(op))
    return lowerConvolutionGradient(*this, op);
  if (auto attention = dyn_cast<autopar::AttentionOp>(op))
    return lowerAttention(*this, attention);
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    return lowerAttentionGrad(*this, gradient);
  if (auto product = dyn_cast<GroupedDotOp>(op))
    return lowerGroupedProduct(*this, product);
  if (auto gradient = dyn_cast<GroupedDotRhsGradOp>(op))
    return lowerGroupedProductGradient(*this, gradient);
  if (auto permute = dyn_cast<PermuteOp>(op))
    return lowerPermute(*this, permute);
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return lowerCollective(*this, collective);
  if (isa<SendOp, ReceiveOp>(op))
    return lowerMessage(*this, op);
  if (auto store = dyn_cast<StoreOnHostOp>(op))
    return lowerStoreOnHost(*this, store);
  if (auto fetch = dyn_cast<FetchFromHostOp>(op))
    return lowerFetchFromHost(*this, fetch);
  if (isa<ElementLoweringOpInterface, KernelLoweringOpInterface>(op))
    return lowerKernel(op);
  if (isa<ReshardOp>(op))
    return op->emitOpError("is left: partition the function before lowering it");
  return op->emitOpError("has no lowering to a kernel, a library call or a view");
}

LogicalResult ProgramBuilder::lowerConstant(autopar::ConstantOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  // Many equal numbers are not worth bytes in the artifact, nor memory before they are used.
  constexpr int64_t mostBytes = 4096;
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (dense && dense.isSplat() && exec::tensorBytes(type) > mostBytes)
    return success(); // filled by viewOf
  Value &buffer = constants[op.getValue()];
  if (!buffer) {
    std::string name = unusedName("constant." + std::to_string(constantCount++));
    buffer = createBuffer(name, type);
    createPort(exec::Role::Parameter, name, buffer, type, {}, {}, op.getValue());
  }
  setView(op.getResult(), {buffer, denseStrides(type.getShape())});
  return success();
}

LogicalResult ProgramBuilder::lowerShardIndex(ShardIndexOp op) {
  MeshOp mesh = meshOf(op, op.getMeshAttr(), op.getAxes());
  if (!mesh)
    return failure();
  auto type = cast<RankedTensorType>(op.getType());
  if (!type.getElementType().isInteger(64) || type.getNumElements() != 1)
    return op.emitOpError() << "expected an i64 scalar, got " << type;
  int64_t word = numberOf(shardIndices, {mesh, op.getAxes(), op.getNumbersAttr()});
  // One cache line per word, as kernels expect aligned arguments.
  constexpr int64_t line = kRankValueWords * 8;
  if (!rankValues) {
    rankValues = createBuffer("rank.values", RankedTensorType::get({1}, type.getElementType()));
    rankValues.getDefiningOp<exec::BufferOp>().setBinding(exec::Binding::RankValues);
  }
  auto declaration = rankValues.getDefiningOp<exec::BufferOp>();
  int64_t lines = shardIndices.size();
  declaration.setBytes(lines * line);
  declaration.setType(RankedTensorType::get({lines * kRankValueWords}, type.getElementType()));
  Value view = exec::ViewOp::create(declarations, op.getLoc(), rankValues.getType(), getOpId(op),
                                    rankValues, word * line, 8, type);
  setView(op.getResult(), {view, denseStrides(type.getShape())});
  return success();
}

//===-- ports -------------------------------------------------------------------------===//

/// The global type of an argument or result: `autopar.global_shape`, or its own.
static FailureOr<RankedTensorType> globalType(func::FuncOp function, Type type,
                                              DictionaryAttr attributes) {
  auto local = cast<RankedTensorType>(type);
  Attribute shape = attributes ? attributes.get("autopar.global_shape") : Attribute();
  if (!shape)
    return local;
  auto dims = dyn_cast<DenseI64ArrayAttr>(shape);
  if (!dims || dims.size() != local.getRank())
    return function.emitOpError() << "expected 'autopar.global_shape' to be array<i64> of "
                                  << local.getRank() << " extents, got " << shape;
  return RankedTensorType::get(dims.asArrayRef(), local.getElementType());
}

/// How many micro-batches the first dimension of an argument or result counts.
static int64_t microBatchesIn(DictionaryAttr attributes) {
  auto count = attributes ? attributes.getAs<IntegerAttr>("autopar.micro_batches") : IntegerAttr();
  return count ? count.getInt() : 1;
}

static StringRef stringIn(DictionaryAttr attributes, StringRef key) {
  auto text = attributes ? attributes.getAs<StringAttr>(key) : StringAttr();
  return text ? text.getValue() : StringRef();
}

/// What arguments, parameters and results are called by the model.
void ProgramBuilder::readGivenNames() {
  for (unsigned number = 0; number < function.getNumArguments(); ++number) {
    DictionaryAttr attributes = function.getArgAttrDict(number);
    givenNames.insert(stringIn(attributes, "autopar.name"));
    if (auto origin = attributes ? attributes.getAs<FlatSymbolRefAttr>("autopar.origin") : nullptr)
      givenNames.insert(origin.getValue());
  }
  for (unsigned number = 0; number < function.getNumResults(); ++number)
    givenNames.insert(stringIn(function.getResultAttrDict(number), "autopar.name"));
}

std::string ProgramBuilder::unusedName(std::string name) const {
  while (givenNames.contains(name))
    name += "_";
  return name;
}

LogicalResult ProgramBuilder::readArguments() {
  readGivenNames();
  llvm::StringSet<> names;
  for (BlockArgument argument : function.getArguments()) {
    Argument info;
    if (failed(readArgument(argument, info)))
      return failure();
    if (!names.insert(info.name).second)
      return function.emitOpError() << "has two arguments named \"" << info.name << "\"";
    if (!info.control.empty() && failed(bindControl(argument, info)))
      return failure();
    if (!info.isFixed() && info.control.empty()) {
      info.buffer = createBuffer(info.name, cast<RankedTensorType>(argument.getType()));
      if (info.isOnHost)
        info.buffer.getDefiningOp<exec::BufferOp>().setSpace(exec::Space::PinnedHost);
      setView(argument,
              {info.buffer, denseStrides(cast<RankedTensorType>(argument.getType()).getShape())});
    }
    arguments.push_back(info);
  }
  donors = donorsOfResults(function);
  return success();
}

LogicalResult ProgramBuilder::readArgument(BlockArgument argument, Argument &info) {
  unsigned number = argument.getArgNumber();
  DictionaryAttr attributes = function.getArgAttrDict(number);
  FailureOr<RankedTensorType> global = globalType(function, argument.getType(), attributes);
  if (failed(global))
    return failure();
  info.global = *global;
  info.name = stringIn(attributes, "autopar.name");
  info.isDonated = attributes && attributes.contains("autopar.donated");
  info.isOnHost = info.isDonated && isOnHost(argument);
  info.control = stringIn(attributes, "autopar.control");
  info.microBatches = microBatchesIn(attributes);
  if (attributes) {
    info.limits = attributes.getAs<DenseI64ArrayAttr>("autopar.limits");
    info.exception = attributes.getAs<IntegerAttr>("autopar.exception");
    info.modelShape = attributes.getAs<DenseI64ArrayAttr>(kModelShapeAttribute);
    info.transposeOf = attributes.getAs<StringAttr>("autopar.transpose_of");
    info.varying = attributes.getAs<ArrayAttr>(kVaryingAttribute);
    info.missing = attributes.getAs<StringAttr>(kMissingAttribute);
  }
  if (attributes)
    info.sharding = attributes.getAs<ShardingAttr>("autopar.sharding");
  if (attributes && attributes.contains("autopar.origin")) {
    auto symbol = attributes.getAs<FlatSymbolRefAttr>("autopar.origin");
    info.origin = symbol ? symbols.lookup<OriginOp>(symbol.getAttr()) : OriginOp();
    if (!info.origin)
      return function.emitOpError() << "argument " << number << " has the origin "
                                    << attributes.get("autopar.origin") << ", which does not exist";
    if (info.name.empty())
      info.name = info.origin.getSymName().str();
  }
  if (info.name.empty())
    info.name = unusedName("arg" + std::to_string(number));
  if (info.sharding &&
      !meshOf(function, info.sharding.getMesh(), Builder(function.getContext()).getArrayAttr({})))
    return failure();
  return success();
}

exec::PortOp ProgramBuilder::createPort(exec::Role role, StringRef name, Value buffer,
                                        RankedTensorType global, ShardingAttr sharding,
                                        OriginOp origin, ElementsAttr value) {
  StringAttr file = origin ? origin.getFileAttr() : StringAttr();
  int64_t offset = origin ? origin.getOffset() : 0;
  ports.push_back({global, sharding, role == exec::Role::Metric});
  return exec::PortOp::create(
      declarations, function.getLoc(), role, name, buffer, global, file, offset, value,
      /*fromModel=*/role == exec::Role::State && origin, /*guards=*/false, /*evaluated=*/false,
      DenseI64ArrayAttr(), IntegerAttr(), /*microBatches=*/1,
      /*modelShape=*/DenseI64ArrayAttr(), /*transposeOf=*/StringAttr(),
      origin ? origin->getAttrOfType<StringAttr>(kDrawnAttribute) : StringAttr(),
      /*varying=*/ArrayAttr(), /*missing=*/StringAttr());
}

void ProgramBuilder::createArgumentPorts() {
  for (const Argument &info : arguments)
    if (info.control.empty()) {
      exec::PortOp port =
          createPort(info.isDonated ? exec::Role::State
                     : info.origin  ? exec::Role::Parameter
                                    : exec::Role::Input,
                     info.name, info.buffer, info.global, info.sharding, info.origin);
      port.setLimitsAttr(info.limits);
      port.setExceptionAttr(info.exception);
      port.setMicroBatches(info.microBatches);
      port.setModelShapeAttr(info.modelShape);
      port.setTransposeOfAttr(info.transposeOf);
      port.setVaryingAttr(info.varying);
      port.setMissingAttr(info.missing);
    }
  if (!controlWords)
    return;
  auto words = controlWords.getDefiningOp<exec::BufferOp>().tensorType();
  createPort(exec::Role::Parameter, unusedName("control"), controlWords, words, {}, {},
             DenseElementsAttr::get(words, ArrayRef<int64_t>(initialWords)));
}

LogicalResult ProgramBuilder::lowerReturn(func::ReturnOp op) {
  for (const Argument &info : arguments)
    taken.insert(info.buffer);
  for (const auto &constant : constants)
    taken.insert(constant.second);
  if (rankValues)
    taken.insert(rankValues);
  llvm::StringSet<> outputs, metrics;
  for (unsigned number = 0; number < op.getNumOperands(); ++number) {
    if (donorOf(number) >= 0)
      continue;
    DictionaryAttr attributes = function.getResultAttrDict(number);
    StringRef name = stringIn(attributes, "autopar.name");
    bool isMetric = attributes && attributes.contains("autopar.metric");
    if (!name.empty() && !(isMetric ? metrics : outputs).insert(name).second)
      return function.emitOpError() << "has two results named \"" << name << "\"";
    if (failed(lowerResult(op, number)))
      return failure();
  }
  return lowerDonatedResults(op);
}

LogicalResult ProgramBuilder::lowerResult(func::ReturnOp op, unsigned number) {
  Value value = op.getOperand(number);
  DictionaryAttr attributes = function.getResultAttrDict(number);
  auto local = cast<RankedTensorType>(value.getType());
  FailureOr<RankedTensorType> global = globalType(function, local, attributes);
  FailureOr<Value> buffer = rowMajorBuffer(value);
  if (failed(global) || failed(buffer))
    return failure();
  std::string name = stringIn(attributes, "autopar.name").str();
  if (name.empty())
    name = unusedName("output" + std::to_string(number));
  auto sharding = attributes ? attributes.getAs<ShardingAttr>("autopar.sharding") : ShardingAttr();
  if (!taken.insert(exec::rootOf(*buffer).first.getResult()).second) {
    Value copy = createBuffer(name, local);
    if (int64_t bytes = exec::tensorBytes(local))
      describe(exec::CopyOp::create(stepBuilder, op.getLoc(), *buffer, 0, copy, 0, bytes), op,
               "copy", 0);
    buffer = copy;
    taken.insert(copy);
  } else if (exec::tensorTypeOf(*buffer) != local) {
    buffer = exec::ViewOp::create(declarations, op.getLoc(), (*buffer).getType(), name, *buffer, 0,
                                  exec::tensorBytes(local), local)
                 .getResult();
  }
  bool isMetric = attributes && attributes.contains("autopar.metric");
  exec::PortOp port = createPort(isMetric ? exec::Role::Metric : exec::Role::Output, name, *buffer,
                                 *global, sharding);
  port.setGuards(attributes && attributes.contains("autopar.guard"));
  port.setEvaluated(attributes && attributes.contains(kEvaluatedAttribute));
  port.setMicroBatches(microBatchesIn(attributes));
  if (attributes)
    port.setVaryingAttr(attributes.getAs<ArrayAttr>(kVaryingAttribute));
  return success();
}

//===-- entry points ------------------------------------------------------------------===//

/// Messages go to meshes that there are, and say for each rank of their own with whom it exchanges.
static LogicalResult checkMessages(func::FuncOp function, MeshOp own, ArrayRef<MeshOp> meshes) {
  auto check = [&](Operation *op, int64_t position, DenseI32ArrayAttr peers) -> LogicalResult {
    auto count = static_cast<int64_t>(meshes.size());
    if (position < 0 || position >= count)
      return op->emitOpError() << "names mesh " << position << ", but the module declares "
                               << count;
    if (peers && peers.size() != own.rankCount())
      return op->emitOpError() << "lists " << peers.size() << " peers for the " << own.rankCount()
                               << " ranks of its mesh";
    if (!peers && own.rankCount() > MeshOp(meshes[position]).rankCount())
      return op->emitOpError() << "lists no peers, and mesh " << position << " has fewer than the "
                               << own.rankCount() << " ranks of its own";
    return success();
  };
  for (Operation &op : function.getBody().front()) {
    if (auto send = dyn_cast<SendOp>(op);
        send && failed(check(send, send.getPosition(), send.getPeersAttr())))
      return failure();
    if (auto receive = dyn_cast<ReceiveOp>(op);
        receive && failed(check(receive, receive.getPosition(), receive.getPeersAttr())))
      return failure();
  }
  return success();
}

LogicalResult mlir::autopar::lowerToExec(ModuleOp module, const LowerToExecOptions &options) {
  auto functions = llvm::to_vector(module.getOps<func::FuncOp>());
  llvm::erase_if(functions, [](func::FuncOp function) {
    return function.getSymName() != "main" && !function->hasAttr(kStageAttribute);
  });
  if (functions.empty())
    return module.emitOpError("expected a function @main to lower");
  SmallVector<MeshOp> meshes(module.getOps<MeshOp>());
  if (functions.size() > 1 && meshes.size() != functions.size())
    return module.emitOpError() << "has " << functions.size() << " functions for the meshes of "
                                << "stages, but declares " << meshes.size() << " meshes";
  OpBuilder builder(functions.front());
  SmallVector<std::unique_ptr<ProgramBuilder>> programs;
  for (func::FuncOp function : functions) {
    MeshOp own = meshes.empty() ? MeshOp() : meshes[programs.size()];
    if (!function.isExternal() && failed(checkMessages(function, own, meshes)))
      return failure();
    std::string name = "class" + std::to_string(programs.size());
    programs.push_back(std::make_unique<ProgramBuilder>(function, name, builder, options));
    if (size_t mesh = programs.back()->meshNumber(); !meshes.empty() && mesh >= meshes.size())
      return function.emitOpError() << "is of stage " << mesh << ", but the module declares "
                                    << meshes.size() << " meshes";
  }
  SmallVector<LogicalResult> lowered(programs.size(), failure());
  runSideBySide(*module.getContext(), programs.size(),
                [&](size_t i) { lowered[i] = programs[i]->lower(); });
  if (llvm::any_of(lowered, [](LogicalResult result) { return failed(result); }))
    return failure();
  KernelPool kernels(module.getLoc());
  for (auto &program : programs)
    program->shareKernels(kernels);
  SmallVector<std::pair<int64_t, ProgramBuilder *>> ranks; // of all meshes, in order
  for (auto &program : programs) {
    MeshOp mesh = meshes.empty() ? MeshOp() : meshes[program->meshNumber()];
    for (int64_t place = 0, count = mesh ? mesh.rankCount() : 1; place < count; ++place)
      ranks.emplace_back(mesh && mesh.getDevices() ? (*mesh.getDevices())[place] : place,
                         program.get());
  }
  llvm::sort(ranks, llvm::less_first());
  for (auto [index, entry] : llvm::enumerate(ranks))
    if (entry.first != static_cast<int64_t>(index))
      return module.emitOpError() << "expected the meshes to have the ranks 0 to "
                                  << ranks.size() - 1 << ", each on one of them";
  for (auto &[rank, program] : ranks)
    program->createRankTable(builder, meshes, rank);
  builder.insert(kernels.release());
  for (func::FuncOp function : functions)
    function.erase();
  if (options.target == Target::Cuda)
    module->setAttr(kTargetAttribute, builder.getStringAttr(nameOf(options.target)));
  for (auto origin : llvm::make_early_inc_range(module.getOps<OriginOp>()))
    origin.erase();
  return success();
}

namespace {
struct AutoParToExecPass : mlir::autopar::impl::AutoParToExecPassBase<AutoParToExecPass> {
  using Base::Base;
  void runOnOperation() override {
    LowerToExecOptions options;
    options.threads = threads;
    options.packWeights = packWeights;
    options.channelBlock = channelBlock;
    options.target = target;
    std::optional<ConvolutionMode> mode = convolutionModeFromName(convolutions);
    if (!mode) {
      getOperation().emitError() << "convolutions: expected auto or kernels, got \"" << convolutions
                                 << "\"";
      return signalPassFailure();
    }
    options.convolutions = *mode;
    if (failed(lowerToExec(getOperation(), options)))
      signalPassFailure();
  }
};
} // namespace
