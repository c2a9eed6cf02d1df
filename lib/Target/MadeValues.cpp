// SPDX-License-Identifier: Apache-2.0
// See the header. A recipe is the digest of an instruction's text, with kernels in place of their
// names, and of the recipes of what it reads.
#include "MadeValues.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Digest;
namespace artifact = ::autopar::artifact;

namespace {

/// What is known of the bytes of a buffer.
struct Recipe {
  Digest digest;
  llvm::SetVector<int32_t> ports;
};

Digest digestOf(const std::string &text) { return Digest::of(text.data(), text.size()); }

Operation *bufferOf(Value value) { return exec::rootOf(value).first; }

/// Which bytes of its buffer a value is, and how they are read.
std::string placeOf(Value value) {
  std::string text;
  llvm::raw_string_ostream(text) << exec::rootOf(value).second << " " << exec::bytesOf(value) << " "
                                 << exec::tensorTypeOf(value);
  return text;
}

/// What an instruction is called, waits for and costs.
bool isBookkeeping(StringRef attribute) {
  static const llvm::StringSet<> names{"after", "awaits", "id",         "key",       "flops",
                                       "bytes", "queue",  "arithmetic", "evaluated", "commits"};
  return names.contains(attribute);
}

class RecipeFinder {
public:
  RecipeFinder(const ProgramIndices &indices, ModuleOp kernels)
      : indices(indices), kernels(kernels) {}

  std::vector<artifact::MadeValue> run(exec::ProgramOp program) {
    for (auto port : program.getOps<exec::PortOp>())
      if (port.getRole() == exec::Role::Parameter && port.getBuffer())
        recipes[bufferOf(port.getBuffer())] = ofParameter(port.getName());
    for (auto entry : program.getOps<exec::EntryOp>())
      for (Operation &op : entry.getBody().front()) {
        auto instruction = cast<exec::InstructionOpInterface>(op);
        if (entry.getSymName() == "load")
          follow(instruction);
        else
          see(instruction);
      }
    std::vector<artifact::MadeValue> values;
    for (Operation *root : made) {
      auto recipe = recipes.find(root);
      if (recipe == recipes.end() || !readBySteps.contains(root) || writtenBySteps.contains(root))
        continue;
      const llvm::SetVector<int32_t> &ports = recipe->second.ports;
      values.push_back({indices.buffers.lookup(root->getResult(0)),
                        recipe->second.digest,
                        {ports.begin(), ports.end()}});
    }
    return values;
  }

private:
  const ProgramIndices &indices;
  ModuleOp kernels;
  DenseMap<Operation *, Recipe> recipes; ///< by buffer; of what is written in load: none if unknown
  llvm::SetVector<Operation *> made;     ///< what load writes
  DenseSet<Operation *> packed;          ///< in a layout that only the machine knows
  DenseSet<Operation *> readBySteps, writtenBySteps;
  llvm::StringMap<std::string> kernelDigests;

  Recipe ofParameter(StringRef port) const {
    Recipe recipe{digestOf("parameter " + port.str()), {}};
    recipe.ports.insert(indices.parameters.lookup(port));
    return recipe;
  }

  void see(exec::InstructionOpInterface op) {
    for (Value value : op.getReads())
      readBySteps.insert(bufferOf(value));
    for (Value value : op.getWrites())
      writtenBySteps.insert(bufferOf(value));
  }

  void follow(exec::InstructionOpInterface op) {
    std::optional<Recipe> recipe = recipeOf(op);
    for (auto [number, value] : llvm::enumerate(op.getWrites())) {
      Operation *root = bufferOf(value);
      bool isFirst = made.insert(root);
      bool keepsRest = value.getDefiningOp() != root || isa<exec::CopyOp>(op);
      auto before = recipes.find(root);
      if (!recipe || (keepsRest && !isFirst && before == recipes.end())) {
        recipes.erase(root);
        continue;
      }
      std::string text =
          recipe->digest.hex() + " result " + std::to_string(number) + " " + placeOf(value);
      Recipe written{{}, recipe->ports};
      if (keepsRest && before != recipes.end()) {
        text += " into " + before->second.digest.hex();
        written.ports.insert_range(before->second.ports);
      }
      written.digest = digestOf(text);
      recipes[root] = std::move(written);
      if (isa<exec::PackOp>(op))
        packed.insert(root);
    }
  }

  /// Of an instruction's results; nothing where they depend on more than parameters.
  std::optional<Recipe> recipeOf(exec::InstructionOpInterface op) {
    if (auto read = dyn_cast<exec::ReadOp>(*op))
      return ofParameter(read.getPort());
    bool isOfOthers = isa<exec::CollectiveOp, exec::PermuteOp, exec::SendOp, exec::RecvOp>(op);
    auto pack = dyn_cast<exec::PackOp>(*op);
    bool isPackedApart = pack && pack.getDst().getDefiningOp() != bufferOf(pack.getDst());
    if (isOfOthers || isPackedApart || isa<exec::GroupedProductOp>(op))
      return std::nullopt;
    std::optional<std::string> text = pack ? textOf(pack) : textOf(op);
    if (!text)
      return std::nullopt;
    Recipe recipe;
    for (Value value : op.getReads()) {
      auto known = recipes.find(bufferOf(value));
      if (known == recipes.end() || packed.contains(bufferOf(value)))
        return std::nullopt;
      *text += " of " + known->second.digest.hex() + " " + placeOf(value);
      recipe.ports.insert_range(known->second.ports);
    }
    recipe.digest = digestOf(*text);
    return recipe;
  }

  std::optional<std::string> textOf(Operation *op) {
    std::string text = op->getName().getStringRef().str();
    llvm::raw_string_ostream out(text);
    for (StringAttr name : op->getName().getAttributeNames()) {
      std::optional<Attribute> value = op->getInherentAttr(name);
      if (!value || !*value || isBookkeeping(name))
        continue;
      out << " " << name.getValue() << " ";
      if (auto symbol = dyn_cast<FlatSymbolRefAttr>(*value)) {
        std::string kernel = kernelDigest(symbol.getValue());
        if (kernel.empty())
          return std::nullopt;
        out << kernel;
      } else {
        out << *value;
      }
    }
    return text;
  }

  /// The layout that it packs into is not among what it says: it is the machine's.
  static std::optional<std::string> textOf(exec::PackOp op) {
    std::string text;
    llvm::raw_string_ostream out(text);
    if (auto product = dyn_cast<exec::MatmulGeometryAttr>(op.getGeometry()))
      out << "pack " << product.getB();
    else
      out << "pack " << tensorTypeOf(op.getSrc());
    return text;
  }

  /// Empty where the kernel is not to be seen.
  std::string kernelDigest(StringRef name) {
    auto [known, isNew] = kernelDigests.try_emplace(name);
    auto kernel = isNew && kernels ? kernels.lookupSymbol<func::FuncOp>(name) : func::FuncOp();
    if (!kernel)
      return known->second;
    OwningOpRef<func::FuncOp> nameless = kernel.clone();
    nameless->setSymName("kernel");
    std::string text;
    llvm::raw_string_ostream out(text);
    nameless->print(out);
    return known->second = digestOf(text).hex();
  }
};

} // namespace

std::vector<artifact::MadeValue> mlir::autopar::findMadeValues(exec::ProgramOp program,
                                                               const ProgramIndices &indices,
                                                               ModuleOp kernels) {
  return RecipeFinder(indices, kernels).run(program);
}
