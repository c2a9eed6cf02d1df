// SPDX-License-Identifier: Apache-2.0
// Instructions of the exec dialect as instructions of the artifact.
#include "InstructionEmitter.h"

#include "autopar/Artifact/ProfileKey.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::autopar;
namespace artifact = ::autopar::artifact;

namespace {
struct PayloadEmitter {
  ProgramIndices &indices;
  std::vector<std::string> &kernels;

  int32_t buffer(Value value) const { return value ? indices.buffers.lookup(value) : -1; }

  int32_t kernel(StringRef symbol) {
    auto [known, isNew] = indices.kernels.try_emplace(symbol, kernels.size());
    if (isNew)
      kernels.push_back(symbol.str());
    return known->second;
  }

  artifact::Payload launch(exec::LaunchOp op) {
    artifact::Launch launch{kernel(op.getKernel()),
                            {},
                            static_cast<int64_t>(op.getExtent()),
                            static_cast<int32_t>(op.getOutputs().size())};
    if (auto grid = op.getGrid()) {
      launch.blocks = (*grid)[0];
      launch.threads = static_cast<int32_t>((*grid)[1]);
      launch.sharedBytes = static_cast<int32_t>((*grid)[2]);
    }
    for (Value value : op.getInputs())
      launch.args.push_back(buffer(value));
    for (Value value : op.getOutputs())
      launch.args.push_back(buffer(value));
    return launch;
  }

  artifact::Payload matmul(exec::MatmulOp op) {
    return artifact::Matmul{exec::toArtifact(op.getGeometry()),
                            buffer(op.getA()),
                            buffer(op.getB()),
                            buffer(op.getC()),
                            buffer(op.getBias()),
                            buffer(op.getResidual()),
                            buffer(op.getScratch()),
                            buffer(op.getAux())};
  }

  artifact::Payload convolution(exec::ConvolutionOp op) {
    return artifact::Convolution{exec::toArtifact(op.getGeometry()),
                                 buffer(op.getX()),
                                 buffer(op.getW()),
                                 buffer(op.getY()),
                                 buffer(op.getBias()),
                                 buffer(op.getResidual()),
                                 buffer(op.getScratch())};
  }

  artifact::Payload attention(exec::AttentionOp op) {
    artifact::Attention attention{
        exec::toArtifact(op.getGeometry()), {}, {}, buffer(op.getScratch())};
    for (Value value : op.getInputs())
      attention.inputs.push_back(buffer(value));
    for (Value value : op.getOutputs())
      attention.outputs.push_back(buffer(value));
    if (op.getShardValue()) {
      attention.shardValue = static_cast<int32_t>(*op.getShardValue());
      attention.parts = static_cast<int64_t>(*op.getParts());
    }
    return attention;
  }

  artifact::Payload groupedProduct(exec::GroupedProductOp op) {
    artifact::GroupedProduct product{exec::toArtifact(op.getGeometry()),
                                     buffer(op.getLhs()),
                                     buffer(op.getRhs()),
                                     buffer(op.getGroup()),
                                     buffer(op.getResult()),
                                     buffer(op.getScratch())};
    if (auto maker = op.getMaker()) {
      product.maker = artifact::MatrixMaker{kernel(*maker),
                                            static_cast<int64_t>(*op.getExtent()),
                                            {},
                                            op.getMatrixSteps()->vec(),
                                            op.getColumnSteps()->vec()};
      for (Value value : op.getMadeOf())
        product.maker->inputs.push_back(buffer(value));
    }
    return product;
  }

  artifact::Payload pack(exec::PackOp op) {
    artifact::Pack pack{buffer(op.getSrc()), buffer(op.getDst()), {}};
    if (auto geometry = dyn_cast<exec::MatmulGeometryAttr>(op.getGeometry()))
      pack.geometry = exec::toArtifact(geometry);
    else
      pack.geometry = exec::toArtifact(cast<exec::ConvolutionGeometryAttr>(op.getGeometry()));
    return pack;
  }

  artifact::Payload reorder(exec::ReorderOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    return artifact::Reorder{buffer(op.getSrc()),
                             buffer(op.getDst()),
                             mlir::autopar::dataTypeOf(type.getElementType()),
                             type.getShape().vec(),
                             static_cast<artifact::Layout>(op.getFrom()),
                             static_cast<artifact::Layout>(op.getTo())};
  }

  artifact::Payload collective(exec::CollectiveOp op) {
    return artifact::Collective{static_cast<artifact::CollectiveKind>(op.getKind()),
                                buffer(op.getInput()),
                                buffer(op.getOutput()),
                                static_cast<int32_t>(op.getGroup()),
                                static_cast<artifact::Reduction>(op.getReduction()),
                                mlir::autopar::dataTypeOf(op.getType()),
                                static_cast<int64_t>(op.getCount())};
  }
};
} // namespace

artifact::Instruction mlir::autopar::emitInstruction(Operation *op, ProgramIndices &indices,
                                                     std::vector<std::string> &kernels) {
  PayloadEmitter emitter{indices, kernels};
  artifact::Instruction instruction;
  instruction.queue =
      static_cast<artifact::Queue>(cast<exec::InstructionOpInterface>(op).getQueue());
  if (auto after = op->getAttrOfType<DenseI32ArrayAttr>("after"))
    instruction.after = after.asArrayRef().vec();
  auto awaits = op->getAttrOfType<DictionaryAttr>("awaits");
  for (NamedAttribute entry : awaits ? awaits.getValue() : ArrayRef<NamedAttribute>())
    for (int32_t earlier : cast<DenseI32ArrayAttr>(entry.getValue()).asArrayRef())
      instruction.awaits.push_back({indices.entries.lookup(entry.getName().getValue()), earlier});
  if (auto id = op->getAttrOfType<StringAttr>("id"))
    instruction.id = id.str();
  if (auto key = op->getAttrOfType<StringAttr>("key"))
    instruction.profileKey = key.str();
  if (auto flops = op->getAttrOfType<IntegerAttr>("flops"))
    instruction.flops = flops.getInt();
  if (auto bytes = op->getAttrOfType<IntegerAttr>("bytes"))
    instruction.bytes = bytes.getInt();
  if (auto type = op->getAttrOfType<StringAttr>("arithmetic"))
    instruction.arithmetic = *::autopar::dataTypeFromName(type.getValue());
  instruction.evaluated = op->hasAttr("evaluated");
  instruction.commits = op->hasAttr("commits");
  auto narrow = [](uint64_t value) { return static_cast<int32_t>(value); };
  auto wide = [](uint64_t value) { return static_cast<int64_t>(value); };
  TypeSwitch<Operation *>(op)
      .Case([&](exec::LaunchOp op) { instruction.payload = emitter.launch(op); })
      .Case([&](exec::MatmulOp op) { instruction.payload = emitter.matmul(op); })
      .Case([&](exec::ConvolutionOp op) { instruction.payload = emitter.convolution(op); })
      .Case([&](exec::AttentionOp op) { instruction.payload = emitter.attention(op); })
      .Case([&](exec::GroupedProductOp op) { instruction.payload = emitter.groupedProduct(op); })
      .Case([&](exec::PackOp op) { instruction.payload = emitter.pack(op); })
      .Case([&](exec::ReorderOp op) { instruction.payload = emitter.reorder(op); })
      .Case([&](exec::CollectiveOp op) { instruction.payload = emitter.collective(op); })
      .Case([&](exec::PermuteOp op) {
        instruction.payload =
            artifact::Permute{emitter.buffer(op.getInput()), emitter.buffer(op.getOutput()),
                              narrow(op.getPermutation()), wide(op.getSize())};
      })
      .Case([&](exec::SendOp op) {
        instruction.payload = artifact::Send{emitter.buffer(op.getBuffer()), narrow(op.getPeer()),
                                             wide(op.getSize()), narrow(op.getTag())};
      })
      .Case([&](exec::RecvOp op) {
        instruction.payload = artifact::Recv{emitter.buffer(op.getBuffer()), narrow(op.getPeer()),
                                             wide(op.getSize()), narrow(op.getTag())};
      })
      .Case([&](exec::CopyOp op) {
        instruction.payload = artifact::Copy{emitter.buffer(op.getSrc()), wide(op.getSrcOffset()),
                                             emitter.buffer(op.getDst()), wide(op.getDstOffset()),
                                             wide(op.getSize())};
      })
      .Case([&](exec::ReadOp op) {
        instruction.payload =
            artifact::Read{indices.parameters.lookup(op.getPort()), emitter.buffer(op.getDst())};
      });
  if (std::holds_alternative<artifact::Launch>(instruction.payload))
    instruction.profileKey = artifact::kernelProfileKey(instruction.profileKey, instruction.bytes);
  else if (std::string key = artifact::profileKey(instruction.payload); !key.empty())
    instruction.profileKey = std::move(key);
  return instruction;
}
