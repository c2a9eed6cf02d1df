// SPDX-License-Identifier: Apache-2.0
// See the header. Bytes become elements: a value has a dimension of samples and one for each
// dimension of the database, all but the last one just long enough to be split by any degree.
#include "autopar/Import/Profile/GraphImporter.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::DataType;
using ::autopar::OperatorGraph;
using ::autopar::OperatorNode;
using ::autopar::OperatorValue;
using ::autopar::ProfileChoice;
using ::autopar::ProfileDatabase;
using ::autopar::ProfiledOperation;
using ::autopar::ProfileRow;

namespace {

class Importer {
public:
  Importer(const OperatorGraph &graph, const ProfileDatabase &database, ModuleOp module)
      : graph(graph), database(database), module(module), builder(module.getContext()),
        extent(database.commonDegree()) {}

  void run() {
    builder.setInsertionPointToEnd(module.getBody());
    function =
        func::FuncOp::create(builder, module.getLoc(), "main", builder.getFunctionType({}, {}));
    Block *block = function.addEntryBlock();
    values.resize(graph.values.size());
    for (auto [number, value] : llvm::enumerate(graph.values))
      if (value.node < 0)
        values[number] = addArgument(typeOf(value.bytesPerSample, DataType::I8, graph.batch),
                                     value.name, nullptr);
    builder.setInsertionPointToEnd(block);
    for (auto [number, node] : llvm::enumerate(graph.nodes))
      addNode(node, static_cast<int64_t>(number));
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> names;
    for (int64_t result : graph.results) {
      results.push_back(values[result]);
      names.push_back(builder.getDictionaryAttr(
          builder.getNamedAttr("autopar.name", builder.getStringAttr(graph.values[result].name))));
    }
    func::ReturnOp::create(builder, module.getLoc(), results);
    function.setType(
        builder.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));
    for (auto [number, named] : llvm::enumerate(arguments)) {
      function.setArgAttr(number, "autopar.name", builder.getStringAttr(named.first));
      if (named.second)
        function.setArgAttr(number, "autopar.origin", named.second);
    }
    function.setAllResultAttrs(names);
  }

private:
  Type elementOf(DataType type) {
    switch (type) {
    case DataType::F16:
      return builder.getF16Type();
    case DataType::BF16:
      return builder.getBF16Type();
    case DataType::I8:
      return builder.getI8Type();
    default:
      return builder.getF32Type();
    }
  }

  RankedTensorType typeOf(int64_t bytesPerSample, DataType type, int64_t batch) {
    int64_t elements = llvm::divideCeil(bytesPerSample, ::autopar::byteSize(type));
    SmallVector<int64_t> shape{batch};
    for (size_t dim = 1; dim < database.dimensions.size(); ++dim) {
      shape.push_back(extent);
      elements = llvm::divideCeil(elements, extent);
    }
    shape.push_back(std::max(extent, static_cast<int64_t>(llvm::alignTo(elements, extent))));
    return RankedTensorType::get(shape, elementOf(type));
  }

  BlockArgument addArgument(Type type, const std::string &name, Attribute origin) {
    arguments.emplace_back(name, origin);
    return function.getBody().front().addArgument(type, module.getLoc());
  }

  ProfileAttr profileOf(const ProfiledOperation &operation) {
    ProfileAttr &profile = profiles[&operation];
    if (profile)
      return profile;
    SmallVector<Attribute> choices;
    for (const ProfileChoice &choice : operation.choices)
      choices.push_back(ProfileChoiceAttr::get(
          builder.getContext(), builder.getStringAttr(choice.name),
          builder.getDenseI64ArrayAttr(choice.inputs), builder.getDenseI64ArrayAttr(choice.outputs),
          choice.splitsWeight, choice.collectivesIncluded));
    SmallVector<int64_t> sizes;
    SmallVector<double> times;
    for (const ProfileRow &row : operation.rows) {
      sizes.append({row.batch, row.degree, row.choice, row.savedBytes, row.workspaceBytes,
                    row.backwardWorkspaceBytes});
      times.append({row.forwardUs, row.backwardUs - row.weightGradientUs, row.weightGradientUs});
    }
    return profile =
               ProfileAttr::get(builder.getContext(), builder.getStringAttr(operation.key), extent,
                                builder.getArrayAttr(choices), builder.getDenseI64ArrayAttr(sizes),
                                builder.getDenseF64ArrayAttr(times));
  }

  /// f32 as everything that is trained, rounded once to what was measured.
  Value addWeight(const OperatorNode &node) {
    int64_t bytes = node.operation->weightBytes;
    if (bytes == 0)
      return {};
    int64_t elements =
        llvm::alignTo(llvm::divideCeil(bytes, ::autopar::byteSize(database.weightType)), extent);
    auto type = RankedTensorType::get({elements}, builder.getF32Type());
    std::string name = node.id + ".weight";
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPoint(function);
      OriginOp::create(builder, module.getLoc(), name, type, StringAttr(), 0);
    }
    Value weight = addArgument(type, name, FlatSymbolRefAttr::get(builder.getContext(), name));
    if (database.weightType == DataType::F32)
      return weight;
    auto cast = CastOp::create(builder, module.getLoc(), type.clone(elementOf(database.weightType)),
                               weight);
    setOpId(cast, name + "/cast");
    return cast;
  }

  void addNode(const OperatorNode &node, int64_t number) {
    const ProfiledOperation &operation = *node.operation;
    SmallVector<Value> inputs;
    for (int64_t input : node.inputs)
      inputs.push_back(values[input]);
    SmallVector<Type> types;
    SmallVector<int64_t> given;
    for (auto [index, value] : llvm::enumerate(graph.values)) {
      if (value.node != number)
        continue;
      given.push_back(index);
      types.push_back(value.isLoss ? RankedTensorType::get({}, builder.getF32Type())
                                   : typeOf(value.bytesPerSample, database.dataType, graph.batch));
    }
    SmallVector<int64_t> own{graph.batch};
    own.append(operation.choices.size(), extent);
    types.append(2, RankedTensorType::get(own, builder.getI8Type()));
    Location location = NameLoc::get(builder.getStringAttr(node.id), module.getLoc());
    Value weight = addWeight(node);
    auto op = ProfiledOp::create(builder, location, types, inputs, weight, profileOf(operation));
    setOpId(op, node.id);
    for (auto [index, output] : llvm::zip_equal(given, op.getOutputs()))
      values[index] = output;
  }

  const OperatorGraph &graph;
  const ProfileDatabase &database;
  ModuleOp module;
  OpBuilder builder;
  int64_t extent; ///< of a dimension that any degree splits
  func::FuncOp function;
  std::vector<Value> values;
  std::vector<std::pair<std::string, Attribute>> arguments; ///< name, origin
  DenseMap<const ProfiledOperation *, ProfileAttr> profiles;
};

} // namespace

FailureOr<OwningOpRef<ModuleOp>> mlir::autopar::importOperatorGraph(const OperatorGraph &graph,
                                                                    const ProfileDatabase &database,
                                                                    StringRef path,
                                                                    MLIRContext &context) {
  context.loadDialect<AutoParDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(FileLineColLoc::get(&context, path, 0, 0));
  Importer(graph, database, *module).run();
  if (failed(verify(*module)))
    return failure();
  return module;
}
