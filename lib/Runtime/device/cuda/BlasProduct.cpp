// SPDX-License-Identifier: Apache-2.0
// cuBLASLt counts in columns: a row-major c is its transpose, the product of the transposed
// operands in the other order.
#include "BlasProduct.h"

#include "autopar/Artifact/Verify.h"

#include <algorithm>
#include <array>
#include <span>

namespace autopar::runtime::cuda {

using artifact::Epilogue;
using artifact::MatmulGeometry;

namespace {

/// How many algorithms the library is asked for; it says of each whether it is one.
constexpr size_t kMostAlgorithms = 8;

Status refuse(const std::string &why, const std::string &how = "for this device") {
  return Status::mismatch("cuBLASLt has no such product: " + why + "; compile the model " + how);
}

Result<int> libraryType(DataType dtype) {
  switch (dtype) {
  case DataType::F16:
    return kBlasF16;
  case DataType::BF16:
    return kBlasBF16;
  case DataType::F32:
    return kBlasF32;
  case DataType::F8E4M3FN:
    return kBlasF8;
  default:
    return refuse("of " + std::string(name(dtype)));
  }
}

/// A matrix as the library stores them: columns one after the other.
struct Columns {
  int64_t rows = 0, columns = 0, leading = 0;
  bool isTransposed = false; ///< stored as the transpose of the matrix that was asked for
};

Result<Columns> columnsOf(int64_t rows, int64_t columns, int64_t rowStride, int64_t columnStride) {
  Columns plain{rows, columns, columns == 1 ? rows : columnStride, false};
  Columns transposed{columns, rows, rows == 1 ? columns : rowStride, true};
  if ((rowStride == 1 || rows == 1) && plain.leading >= rows)
    return plain;
  if ((columnStride == 1 || columns == 1) && transposed.leading >= columns)
    return transposed;
  return refuse("a matrix of " + std::to_string(rows) + " x " + std::to_string(columns) +
                " with strides " + std::to_string(rowStride) + ", " + std::to_string(columnStride));
}

int64_t productOf(const std::vector<int64_t> &dims) {
  int64_t product = 1;
  for (int64_t dim : dims)
    product *= dim;
  return product;
}

/// The largest divisor of `count` that is no more than `most`.
int64_t largestDivisor(int64_t count, int64_t most) {
  int64_t parts = (count + most - 1) / most;
  while (count % parts != 0)
    ++parts;
  return count / parts;
}

} // namespace

/// What the library may lack for training can be left to kernels.
Status BlasProduct::refuse(const std::string &why) const {
  return cuda::refuse(why, sums() ? "with --bias-gradients kernels"
                           : isGradient(epilogue) || storesAux(epilogue)
                               ? "with --activation-gradients kernels"
                               : "for this device");
}

Status checkBlas(const BlasLtCalls &calls, BlasStatus status, const std::string &what) {
  return status == BlasStatus::Success ? Status::ok()
                                       : Status::internal(what + ": " + calls.statusName(status) +
                                                          " " + std::to_string(int(status)));
}

Result<std::unique_ptr<BlasProduct>> BlasProduct::create(const BlasLtCalls &calls,
                                                         BlasHandle handle, const MatmulGeometry &g,
                                                         const ProductAlignment &alignment,
                                                         int64_t mostWorkspace) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  std::unique_ptr<BlasProduct> product(new BlasProduct(calls, handle));
  product->epilogue = g.epilogue;
  product->isEmpty = productOf(g.c.dims) == 0;
  if (product->isEmpty)
    return product;
  if (g.packedB)
    return product->refuse("with packed weights");
  if (g.a.dims.back() == 0)
    return product->refuse("over no terms");
  AUTOPAR_RETURN_IF_ERROR(product->describe(g, alignment));
  Status chosen = product->chooseAlgorithm(alignment, mostWorkspace);
  if (chosen.code() == StatusCode::Mismatch && product->biasInCall) {
    // It may have the product without the bias.
    ProductAlignment apart = alignment;
    apart.bias = kBlasEpilogueAlignment / 2;
    return create(calls, handle, g, apart, mostWorkspace);
  }
  AUTOPAR_RETURN_IF_ERROR(chosen);
  if (!product->biasBefore)
    return product;
  size_t rank = g.c.dims.size();
  MatmulGeometry outerProduct = g;
  outerProduct.aType = outerProduct.bType = g.biasType;
  outerProduct.a = outerProduct.b = {std::vector<int64_t>(rank, 1), std::vector<int64_t>(rank, 1)};
  outerProduct.a.dims[rank - 2] = g.c.dims[rank - 2];
  outerProduct.b.dims[rank - 1] = g.c.dims[rank - 1];
  outerProduct.hasBias = false;
  outerProduct.epilogue = Epilogue::None;
  ProductAlignment ofOuter = alignment;
  ofOuter.a = 16, ofOuter.b = alignment.bias;
  auto before = create(calls, handle, outerProduct, ofOuter, mostWorkspace);
  if (!before)
    return before.status().at("adding the bias");
  product->before = before.take();
  product->workspace = std::max(product->workspace, product->before->workspace);
  product->ones = g.c.dims[rank - 2];
  return product;
}

/// The matrices as a call takes them: of the transposed product where the result's rows lie one
/// after the other.
struct BlasProduct::Matrices {
  Columns left, right, stored;
  int factorType = 0, storedType = 0;
};

Result<BlasProduct::Matrices> BlasProduct::arrange(const MatmulGeometry &g) {
  auto aType = libraryType(g.aType), bType = libraryType(g.bType), cType = libraryType(g.cType);
  for (const auto *type : {&aType, &bType, &cType})
    if (!*type)
      return type->status();
  bool isOfBytes = *aType == kBlasF8;
  if (g.aType != g.bType ||
      (g.cType != (isOfBytes ? DataType::BF16 : g.aType) && g.cType != DataType::F32))
    return refuse(std::string(name(g.aType)) + " by " + std::string(name(g.bType)) + " to " +
                  std::string(name(g.cType)));
  size_t rank = g.c.dims.size();
  int64_t m = g.c.dims[rank - 2], n = g.c.dims[rank - 1], k = g.a.dims[rank - 1];
  auto of = [&](const artifact::StridedShape &shape, size_t fromEnd) {
    return shape.strides[rank - fromEnd];
  };
  int64_t aM = of(g.a, 2), aK = of(g.a, 1), bK = of(g.b, 2), bN = of(g.b, 1), cM = of(g.c, 2),
          cN = of(g.c, 1);
  isSwapped = (cN == 1 || n == 1) && (m == 1 || cM >= n);
  auto stored = isSwapped ? columnsOf(n, m, cN, cM) : columnsOf(m, n, cM, cN);
  auto left = isSwapped ? columnsOf(n, k, bN, bK) : columnsOf(m, k, aM, aK);
  auto right = isSwapped ? columnsOf(k, m, aK, aM) : columnsOf(k, n, bK, bN);
  for (const auto *columns : {&stored, &left, &right})
    if (!*columns)
      return columns->status();
  if (stored->isTransposed)
    return refuse("into rows and columns that are both strided");
  if (isOfBytes && (!left->isTransposed || right->isTransposed))
    return refuse("of 8 bits whose terms are no neighbours");
  return Matrices{*left, *right, *stored, *aType, *cType};
}

Status BlasProduct::divideEpilogue(const MatmulGeometry &g, const ProductAlignment &alignment,
                                   const Matrices &matrices) {
  if (epilogue == Epilogue::GeluErf)
    return refuse("with an exact GELU behind it");
  biasInCall = g.hasBias && isSwapped && g.scale == 1.0f && g.biasType == g.cType &&
               alignment.bias >= kBlasEpilogueAlignment;
  biasBefore = g.hasBias && !biasInCall;
  accumulates = (g.hasResidual && !isGradient(epilogue)) || biasBefore;
  return isGradient(epilogue) || storesAux(epilogue) ? checkAux(alignment, matrices) : Status::ok();
}

Status BlasProduct::checkAux(const ProductAlignment &alignment, const Matrices &matrices) const {
  int64_t leading = matrices.stored.leading;
  bool isOfGelu = epilogue == Epilogue::GeluTanhAux || epilogue == Epilogue::GeluTanhGrad;
  if (isOfGelu && leading % kBlasAuxStep != 0)
    return refuse("with what a GELU is given in lines of " + std::to_string(leading) +
                  " elements, which is no multiple of " + std::to_string(kBlasAuxStep));
  // nvmath-python of NVIDIA, in its tests: of A where it is not transposed, of B where it is.
  if (sums() && (sumsLeft() ? matrices.left.isTransposed : !matrices.right.isTransposed))
    return refuse("with sums of an operand whose terms are neighbours");
  if ((isGradient(epilogue) ? alignment.residual : alignment.aux) < kBlasEpilogueAlignment)
    return refuse("with an epilogue that reads or stores what does not start at a multiple of " +
                  std::to_string(kBlasEpilogueAlignment) + " bytes");
  return Status::ok();
}

uint32_t BlasProduct::epilogueOfCall() const {
  if (isGradient(epilogue))
    return epilogue == Epilogue::ReluGrad ? kBlasReluGradient : kBlasGeluGradient;
  if (sums())
    return sumsLeft() ? kBlasSumsOfLeft : kBlasSumsOfRight;
  Epilogue activation = activationOf(epilogue);
  int bits = (biasInCall ? kBlasBias : 0) | (activation == Epilogue::Relu ? kBlasRelu : 0) |
             (activation == Epilogue::GeluTanh ? kBlasGelu : 0) |
             (storesAux(epilogue) ? kBlasAux : 0);
  return uint32_t(bits ? bits : kBlasNoEpilogue);
}

Status BlasProduct::describeOperation(const Matrices &matrices) {
  AUTOPAR_RETURN_IF_ERROR(check(calls.operationCreate(&operation, kBlasComputeF32, kBlasF32),
                                "cublasLtMatmulDescCreate"));
  auto set = [&](int attribute, auto value) {
    return check(calls.operationSet(operation, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute");
  };
  auto formOf = [](const Columns &columns) {
    return int32_t(columns.isTransposed ? kBlasTransposed : kBlasPlain);
  };
  AUTOPAR_RETURN_IF_ERROR(set(kBlasTransposeA, formOf(matrices.left)));
  AUTOPAR_RETURN_IF_ERROR(set(kBlasTransposeB, formOf(matrices.right)));
  AUTOPAR_RETURN_IF_ERROR(set(kBlasEpilogue, epilogueOfCall()));
  if (biasInCall)
    AUTOPAR_RETURN_IF_ERROR(set(kBlasBiasType, int32_t(matrices.storedType)));
  switch (epilogue) {
  case Epilogue::GeluTanhAux:
  case Epilogue::GeluTanhGrad:
    return set(kBlasAuxLeading, matrices.stored.leading);
  case Epilogue::ReluAux:
  case Epilogue::ReluGrad:
    return set(kBlasAuxLeading,
               (matrices.stored.rows + kBlasMaskStep - 1) / kBlasMaskStep * kBlasMaskStep);
  default:
    return Status::ok();
  }
}

Status BlasProduct::describeLayouts(const MatmulGeometry &g, const Matrices &matrices) {
  Batch inCall = divideBatch(g);
  auto layout = [&](BlasLayout &made, int type, const Columns &columns,
                    int64_t batchStride) -> Status {
    AUTOPAR_RETURN_IF_ERROR(check(calls.layoutCreate(&made, type, uint64_t(columns.rows),
                                                     uint64_t(columns.columns), columns.leading),
                                  "cublasLtMatrixLayoutCreate"));
    int32_t count = int32_t(inCall.count);
    AUTOPAR_RETURN_IF_ERROR(check(calls.layoutSet(made, kBlasBatchCount, &count, sizeof(count)),
                                  "cublasLtMatrixLayoutSetAttribute"));
    return check(calls.layoutSet(made, kBlasBatchStride, &batchStride, sizeof(batchStride)),
                 "cublasLtMatrixLayoutSetAttribute");
  };
  AUTOPAR_RETURN_IF_ERROR(
      layout(first, matrices.factorType, matrices.left, isSwapped ? inCall.b : inCall.a));
  AUTOPAR_RETURN_IF_ERROR(
      layout(second, matrices.factorType, matrices.right, isSwapped ? inCall.a : inCall.b));
  return layout(result, matrices.storedType, matrices.stored, inCall.c);
}

Status BlasProduct::describe(const MatmulGeometry &g, const ProductAlignment &alignment) {
  aBytes = byteSize(g.aType), bBytes = byteSize(g.bType), cBytes = byteSize(g.cType);
  scale = g.scale;
  Result<Matrices> matrices = arrange(g);
  if (!matrices)
    return matrices.status();
  AUTOPAR_RETURN_IF_ERROR(divideEpilogue(g, alignment, *matrices));
  AUTOPAR_RETURN_IF_ERROR(describeOperation(*matrices));
  return describeLayouts(g, *matrices);
}

BlasProduct::Batch BlasProduct::divideBatch(const MatmulGeometry &g) {
  // Outermost first; dimensions that follow evenly on the next are one with it.
  std::vector<Batch> batch;
  for (size_t d = 0; d + 2 < g.c.dims.size(); ++d) {
    auto stride = [&](const artifact::StridedShape &shape) {
      return shape.dims[d] == 1 ? 0 : shape.strides[d];
    };
    Batch next{g.c.dims[d], stride(g.a), stride(g.b), stride(g.c)};
    if (next.count == 1)
      continue;
    if (!batch.empty()) {
      Batch &last = batch.back();
      if (last.a == next.a * next.count && last.b == next.b * next.count &&
          last.c == next.c * next.count) {
        last = {last.count * next.count, next.a, next.b, next.c};
        continue;
      }
    }
    batch.push_back(next);
  }
  Batch inCall;
  if (!batch.empty()) {
    auto most = std::max_element(batch.begin(), batch.end(),
                                 [](const Batch &x, const Batch &y) { return x.count < y.count; });
    inCall = *most;
    batch.erase(most);
  }
  if (inCall.count > kBlasMostBatches) {
    int64_t count = largestDivisor(inCall.count, kBlasMostBatches);
    batch.push_back({inCall.count / count, inCall.a * count, inCall.b * count, inCall.c * count});
    inCall.count = count;
  }
  outer = std::move(batch);
  return inCall;
}

Status BlasProduct::chooseAlgorithm(const ProductAlignment &given, int64_t mostWorkspace) {
  // Later calls of one product start further on.
  ProductAlignment alignment = given;
  auto lower = [](int64_t &bytes, int64_t step) {
    bytes = step == 0 ? bytes : std::min(bytes, step & -step);
  };
  for (const Batch &batch : outer) {
    lower(alignment.a, batch.a * aBytes);
    lower(alignment.b, batch.b * bBytes);
    lower(alignment.c, batch.c * cBytes);
    lower(alignment.residual, batch.c * cBytes);
  }
  // Heuristics look at where these lie.
  AUTOPAR_RETURN_IF_ERROR(point(given.biasAt, given.gradientAt, given.auxAt));
  BlasPreference preference = nullptr;
  AUTOPAR_RETURN_IF_ERROR(
      check(calls.preferenceCreate(&preference), "cublasLtMatmulPreferenceCreate"));
  std::shared_ptr<void> cleanUp(nullptr, [&](void *) { calls.preferenceDestroy(preference); });
  auto set = [&](int attribute, auto value) {
    return check(calls.preferenceSet(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
  };
  AUTOPAR_RETURN_IF_ERROR(set(kBlasMaxWorkspace, uint64_t(mostWorkspace)));
  AUTOPAR_RETURN_IF_ERROR(set(kBlasMinAlignmentA, uint32_t(isSwapped ? alignment.b : alignment.a)));
  AUTOPAR_RETURN_IF_ERROR(set(kBlasMinAlignmentB, uint32_t(isSwapped ? alignment.a : alignment.b)));
  // A bias that was added before lies in c.
  bool readsResidual = accumulates && !biasBefore;
  AUTOPAR_RETURN_IF_ERROR(
      set(kBlasMinAlignmentC, uint32_t(readsResidual ? alignment.residual : alignment.c)));
  AUTOPAR_RETURN_IF_ERROR(set(kBlasMinAlignmentD, uint32_t(alignment.c)));
  // Rounding parts of a sum to 16 bits would cost the precision that f32 sums are there for.
  if (cBytes == 2)
    AUTOPAR_RETURN_IF_ERROR(set(kBlasReductionSchemes, kBlasReduceInComputeType));
  std::array<BlasHeuristic, kMostAlgorithms> answers{};
  int found = 0;
  BlasStatus status = calls.heuristic(handle, operation, first, second, result, result, preference,
                                      int(answers.size()), answers.data(), &found);
  // For some products that it does not have it says that a value is invalid.
  if (status != BlasStatus::NotSupported && status != BlasStatus::InvalidValue)
    AUTOPAR_RETURN_IF_ERROR(check(status, "cublasLtMatmulAlgoGetHeuristic"));
  for (const BlasHeuristic &answer : std::span(answers).first(size_t(found)))
    if (status == BlasStatus::Success && answer.state == BlasStatus::Success) {
      algorithm = answer.algorithm;
      workspace = int64_t(answer.workspaceBytes);
      return Status::ok();
    }
  return refuse("no algorithm for these sizes, types, alignments and epilogue (" +
                std::string(calls.statusName(status)) + ")");
}

BlasProduct::~BlasProduct() {
  for (BlasLayout layout : {first, second, result})
    if (layout)
      calls.layoutDestroy(layout);
  if (operation)
    calls.operationDestroy(operation);
}

/// Says where the epilogue finds what it reads, and what it stores beside the result.
Status BlasProduct::point(DevicePointer bias, DevicePointer gradientAt, DevicePointer aux) const {
  auto set = [&](int attribute, DevicePointer address) {
    return check(calls.operationSet(operation, attribute, &address, sizeof(address)),
                 "cublasLtMatmulDescSetAttribute");
  };
  if (biasInCall || sums())
    AUTOPAR_RETURN_IF_ERROR(set(kBlasBiasPointer, sums() ? aux : bias));
  if (isGradient(epilogue))
    return set(kBlasAuxPointer, gradientAt);
  return storesAux(epilogue) && !sums() ? set(kBlasAuxPointer, aux) : Status::ok();
}

Status BlasProduct::run(const Operands &operands, Stream stream) const {
  if (isEmpty)
    return Status::ok();
  Operands own = operands;
  if (before) {
    Operands sum;
    sum.a = operands.ones, sum.b = operands.bias, sum.c = operands.c;
    sum.residual = operands.residual, sum.workspace = operands.workspace;
    AUTOPAR_RETURN_IF_ERROR(before->run(sum, stream));
    own.residual = own.c;
  }
  AUTOPAR_RETURN_IF_ERROR(point(own.bias, own.residual, own.aux));
  std::vector<int64_t> index(outer.size(), 0);
  while (true) {
    int64_t a = 0, b = 0, c = 0;
    for (size_t d = 0; d < outer.size(); ++d)
      a += index[d] * outer[d].a, b += index[d] * outer[d].b, c += index[d] * outer[d].c;
    AUTOPAR_RETURN_IF_ERROR(call(own, a * aBytes, b * bBytes, c * cBytes, stream));
    size_t d = outer.size();
    while (d > 0 && ++index[d - 1] == outer[d - 1].count)
      index[--d] = 0;
    if (d == 0)
      return Status::ok();
  }
}

Status BlasProduct::call(const Operands &operands, int64_t aOffset, int64_t bOffset,
                         int64_t cOffset, Stream stream) const {
  auto at = [](DevicePointer address, int64_t offset) {
    return reinterpret_cast<void *>(uintptr_t(address) + uintptr_t(offset));
  };
  void *a = at(operands.a, aOffset), *b = at(operands.b, bOffset), *c = at(operands.c, cOffset);
  void *added = accumulates ? at(operands.residual, cOffset) : c;
  float alpha = scale, beta = accumulates ? 1.0f : 0.0f;
  return check(calls.matmul(handle, operation, &alpha, isSwapped ? b : a, first, isSwapped ? a : b,
                            second, &beta, added, result, c, result, &algorithm,
                            workspace > 0 ? at(operands.workspace, 0) : nullptr, size_t(workspace),
                            stream),
               "cublasLtMatmul");
}

} // namespace autopar::runtime::cuda
