// SPDX-License-Identifier: Apache-2.0
// How many rows a group has is known when the call runs, but products are made ready before. So
// there is one for each of some numbers of rows, a third to a half apart: a group's rows are copied
// side by side into scratch, filled up with zeros to the next of these numbers, and multiplied at
// once. Matrices that are made are made part by part: each thread makes some columns in its own
// scratch and multiplies the group's rows by them.
#include "autopar/CpuMath/GroupedProductCall.h"

#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/LibraryCalls.h"
#include "autopar/CpuMath/OpenMP.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

namespace autopar::cpumath {

using artifact::GroupedProductGeometry;
using artifact::MatmulGeometry;
using artifact::StridedShape;

namespace {

/// Rows that are multiplied at once. Of a gradient they are what is summed, so that more of them
/// spare passes over its result.
constexpr int64_t kMostRows = 512, kMostTerms = 2048;

int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

StridedShape dense(int64_t rows, int64_t columns) { return {{rows, columns}, {columns, 1}}; }
StridedShape across(int64_t rows, int64_t columns) { return {{rows, columns}, {1, rows}}; }

/// 1, 2, 3, 4, 6, 8, 12, ... up to the first that is enough.
std::vector<int64_t> rowCounts(int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t power = 1;; power *= 2)
    for (int64_t count : {power, power + power / 2}) {
      if (counts.empty() || count > counts.back())
        counts.push_back(std::min(count, most));
      if (counts.back() == most)
        return counts;
    }
}

/// Where rows lie in a strided tensor [rows..., extent].
class Rows {
public:
  Rows(const StridedShape &shape, DataType type) : shape(shape), size(byteSize(type)) {}

  int64_t bytes() const { return shape.dims.back() * size; }
  int64_t count() const {
    int64_t rows = 1;
    for (size_t dim = 0; dim + 1 < shape.dims.size(); ++dim)
      rows *= shape.dims[dim];
    return rows;
  }
  /// Bytes before row `row`, counted in row-major order.
  int64_t offset(int64_t row) const {
    int64_t elements = 0;
    for (size_t dim = shape.dims.size() - 1; dim-- > 0; row /= shape.dims[dim])
      elements += row % shape.dims[dim] * shape.strides[dim];
    return elements * size;
  }

private:
  StridedShape shape;
  int64_t size;
};

/// The rows of each group, in their order: of group g those at [begins[g], begins[g + 1]). Those of
/// none come last.
struct Order {
  const int64_t *rows, *begins;
};

template <typename Number>
void sortRows(const Number *group, int64_t count, int64_t groups, int64_t *rows, int64_t *begins) {
  auto groupOf = [&](int64_t row) {
    int64_t number = group[row];
    return number < 0 || number >= groups ? groups : number;
  };
  std::fill(begins, begins + groups + 2, 0);
  for (int64_t row = 0; row < count; ++row)
    ++begins[groupOf(row) + 1];
  for (int64_t g = 0; g <= groups; ++g)
    begins[g + 1] += begins[g];
  for (int64_t row = 0; row < count; ++row)
    rows[begins[groupOf(row)]++] = row;
  // Each begin has moved to its end, which is where the next one was.
  for (int64_t g = groups + 1; g > 0; --g)
    begins[g] = begins[g - 1];
  begins[0] = 0;
}

} // namespace

struct GroupedProductCall::Prepared {
  explicit Prepared(const GroupedProductGeometry &geometry)
      : g(geometry), lhs(g.lhs, g.type), rows(g.rows, g.isGradient ? g.type : g.resultType),
        count(lhs.count()), threads(omp_get_max_threads()) {}

  Status prepare();
  Status addProducts(std::vector<MatmulCall> &calls, bool accumulates);
  Result<MatmulCall> productOf(int64_t rowCount, bool accumulates) const;
  Order sort(const void *group, uint8_t *scratch) const;
  Status forward(const void *lhs, const void *rhs, const Order &order, void *result,
                 uint8_t *scratch) const;
  Status madeForward(const void *lhs, const MakeColumns &make, const Order &order, void *result,
                     uint8_t *scratch) const;
  Status gradient(const void *lhs, const void *rhs, const Order &order, void *result,
                  uint8_t *scratch) const;
  void clearRowsOfNone(const Order &order, void *result) const;

  /// The smallest product for so many rows.
  size_t productFor(int64_t rowCount) const {
    return size_t(std::lower_bound(counts.begin(), counts.end(), rowCount) - counts.begin());
  }
  int64_t mostAtOnce() const { return counts.back(); }
  // Where what lies in scratch begins, behind the order of rows: rows of lhs, rows of the other
  // side or the result, what products ask for.
  int64_t leftAt() const { return lines((count + g.groups + 2) * int64_t(sizeof(int64_t))); }
  int64_t rightAt() const { return leftAt() + lines(mostAtOnce() * lhs.bytes()); }
  int64_t productAt() const { return rightAt() + lines(mostAtOnce() * rows.bytes()); }
  int64_t matrixBytes() const {
    return g.depth() * g.columns() * byteSize(g.isGradient ? g.resultType : g.type);
  }
  bool isMade() const { return g.madeColumns > 0; }
  /// Of a matrix that a product multiplies by at once.
  int64_t columnsAtOnce() const { return isMade() ? g.madeColumns : g.columns(); }
  // Of matrices that are made each thread has scratch of its own behind the rows of lhs: columns,
  // products by them, what products ask for.
  int64_t madeRowBytes() const { return g.madeColumns * byteSize(g.resultType); }
  int64_t madeProductAt() const { return lines(g.madeColumns * g.depth() * byteSize(g.type)); }
  int64_t madeScratchAt() const { return madeProductAt() + lines(mostAtOnce() * madeRowBytes()); }
  int64_t threadBytes() const { return madeScratchAt() + lines(productBytes); }
  int64_t scratchBytes() const {
    return isMade() ? rightAt() + threads * threadBytes() : productAt() + productBytes;
  }

  GroupedProductGeometry g;
  Rows lhs, rows;
  int64_t count;   ///< of rows
  int64_t threads; ///< that share what is made
  std::vector<int64_t> counts;
  std::vector<MatmulCall> products; ///< one for each of the counts
  std::vector<MatmulCall> adding;   ///< of a gradient, likewise: to what is there
  int64_t productBytes = 0;
};

Result<MatmulCall> GroupedProductCall::Prepared::productOf(int64_t rowCount,
                                                           bool accumulates) const {
  MatmulGeometry product;
  product.aType = product.bType = g.type;
  product.cType = g.resultType;
  product.hasResidual = accumulates;
  if (g.isGradient) {
    product.a = across(g.depth(), rowCount);
    product.b = dense(rowCount, g.columns());
    product.c = dense(g.depth(), g.columns());
  } else {
    int64_t columns = columnsAtOnce();
    product.a = dense(rowCount, g.depth());
    product.b = g.transposed ? across(g.depth(), columns) : dense(g.depth(), columns);
    product.c = dense(rowCount, columns);
  }
  return MatmulCall::create(product);
}

Status GroupedProductCall::Prepared::prepare() {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  counts = rowCounts(std::min(count, g.isGradient ? kMostTerms : kMostRows));
  if (isMade()) {
    ThreadCountScope each(1);
    return addProducts(products, /*accumulates=*/false);
  }
  AUTOPAR_RETURN_IF_ERROR(addProducts(products, /*accumulates=*/false));
  return g.isGradient && count > mostAtOnce() ? addProducts(adding, true) : Status::ok();
}

Status GroupedProductCall::Prepared::addProducts(std::vector<MatmulCall> &calls, bool accumulates) {
  for (int64_t rowCount : counts) {
    auto product = productOf(rowCount, accumulates);
    if (!product)
      return product.status();
    productBytes = std::max(productBytes, product->scratchBytes());
    calls.push_back(product.take());
  }
  return Status::ok();
}

Result<GroupedProductCall> GroupedProductCall::create(const GroupedProductGeometry &geometry) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(geometry));
  auto prepared = std::make_shared<Prepared>(geometry);
  AUTOPAR_RETURN_IF_ERROR(prepared->prepare());
  GroupedProductCall call;
  call.prepared = std::move(prepared);
  return call;
}

int64_t GroupedProductCall::scratchBytes() const { return prepared->scratchBytes(); }

Order GroupedProductCall::Prepared::sort(const void *group, uint8_t *scratch) const {
  auto *begins = reinterpret_cast<int64_t *>(scratch), *order = begins + g.groups + 2;
  if (g.groupType == DataType::I32)
    sortRows(static_cast<const int32_t *>(group), count, g.groups, order, begins);
  else
    sortRows(static_cast<const int64_t *>(group), count, g.groups, order, begins);
  return {order, begins};
}

/// Rows of `from` side by side, and zeros up to `padded` rows.
static void collect(const Rows &from, const void *data, const int64_t *rows, int64_t count,
                    int64_t padded, uint8_t *to) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * from.bytes(), static_cast<const uint8_t *>(data) + from.offset(rows[i]),
                size_t(from.bytes()));
  std::memset(to + count * from.bytes(), 0, size_t((padded - count) * from.bytes()));
}

Status GroupedProductCall::Prepared::forward(const void *lhsData, const void *rhs,
                                             const Order &order, void *result,
                                             uint8_t *scratch) const {
  uint8_t *left = scratch + leftAt(), *product = scratch + rightAt();
  auto *out = static_cast<uint8_t *>(result);
  for (int64_t group = 0; group < g.groups; ++group) {
    auto *matrix = const_cast<uint8_t *>(static_cast<const uint8_t *>(rhs)) + group * matrixBytes();
    for (int64_t at = order.begins[group], end = order.begins[group + 1]; at < end;) {
      int64_t here = std::min(end - at, mostAtOnce());
      size_t which = productFor(here);
      collect(lhs, lhsData, order.rows + at, here, counts[which], left);
      AUTOPAR_RETURN_IF_ERROR(
          products[which].run(left, matrix, product, nullptr, nullptr, scratch + productAt()));
      for (int64_t i = 0; i < here; ++i)
        std::memcpy(out + rows.offset(order.rows[at + i]), product + i * rows.bytes(),
                    size_t(rows.bytes()));
      at += here;
    }
  }
  clearRowsOfNone(order, result);
  return Status::ok();
}

void GroupedProductCall::Prepared::clearRowsOfNone(const Order &order, void *result) const {
  for (int64_t at = order.begins[g.groups]; at < count; ++at)
    std::memset(static_cast<uint8_t *>(result) + rows.offset(order.rows[at]), 0,
                size_t(rows.bytes()));
}

namespace {

/// What threads share of one group: they take the parts of its matrix in turn.
struct Parts {
  int64_t count;
  std::function<Status(int64_t part, int64_t thread)> run;
  std::vector<Status> statuses; ///< by thread
  std::atomic<int64_t> next = 0;

  static void runShare(void *data) {
    auto &parts = *static_cast<Parts *>(data);
    int64_t thread = omp_get_thread_num();
    for (int64_t part; (part = parts.next++) < parts.count;)
      if (Status status = parts.run(part, thread); !status.isOk())
        parts.statuses[size_t(thread)] = status;
  }
};

} // namespace

Status GroupedProductCall::Prepared::madeForward(const void *lhsData, const MakeColumns &make,
                                                 const Order &order, void *result,
                                                 uint8_t *scratch) const {
  uint8_t *left = scratch + leftAt();
  auto *out = static_cast<uint8_t *>(result);
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t at = order.begins[group], end = order.begins[group + 1]; at < end;) {
      int64_t here = std::min(end - at, mostAtOnce());
      size_t which = productFor(here);
      collect(lhs, lhsData, order.rows + at, here, counts[which], left);
      auto run = [&](int64_t part, int64_t thread) {
        uint8_t *own = scratch + rightAt() + thread * threadBytes(),
                *product = own + madeProductAt();
        make(group, part, own);
        AUTOPAR_RETURN_IF_ERROR(
            products[which].run(left, own, product, nullptr, nullptr, own + madeScratchAt()));
        for (int64_t i = 0; i < here; ++i)
          std::memcpy(out + rows.offset(order.rows[at + i]) + part * madeRowBytes(),
                      product + i * madeRowBytes(), size_t(madeRowBytes()));
        return Status::ok();
      };
      Parts parts{g.columns() / g.madeColumns, run, std::vector<Status>(size_t(threads))};
      if (threads > 1 && parts.count > 1)
        GOMP_parallel(Parts::runShare, &parts, unsigned(std::min(threads, parts.count)), 0);
      else
        Parts::runShare(&parts);
      for (const Status &status : parts.statuses)
        AUTOPAR_RETURN_IF_ERROR(status);
      at += here;
    }
  clearRowsOfNone(order, result);
  return Status::ok();
}

Status GroupedProductCall::Prepared::gradient(const void *lhsData, const void *rhs,
                                              const Order &order, void *result,
                                              uint8_t *scratch) const {
  uint8_t *left = scratch + leftAt(), *right = scratch + rightAt();
  for (int64_t group = 0; group < g.groups; ++group) {
    uint8_t *matrix = static_cast<uint8_t *>(result) + group * matrixBytes();
    int64_t begin = order.begins[group], end = order.begins[group + 1];
    if (begin == end)
      std::memset(matrix, 0, size_t(matrixBytes()));
    for (int64_t at = begin; at < end;) {
      int64_t here = std::min(end - at, mostAtOnce());
      size_t which = productFor(here);
      collect(lhs, lhsData, order.rows + at, here, counts[which], left);
      collect(rows, rhs, order.rows + at, here, counts[which], right);
      bool adds = at > begin;
      AUTOPAR_RETURN_IF_ERROR((adds ? adding : products)[which].run(
          left, right, matrix, nullptr, adds ? matrix : nullptr, scratch + productAt()));
      at += here;
    }
  }
  return Status::ok();
}

Status GroupedProductCall::run(const void *lhs, const void *rhs, const void *group, void *result,
                               void *scratch) const {
  auto *bytes = static_cast<uint8_t *>(scratch);
  Order order = prepared->sort(group, bytes);
  return prepared->g.isGradient ? prepared->gradient(lhs, rhs, order, result, bytes)
                                : prepared->forward(lhs, rhs, order, result, bytes);
}

Status GroupedProductCall::run(const void *lhs, const MakeColumns &make, const void *group,
                               void *result, void *scratch) const {
  auto *bytes = static_cast<uint8_t *>(scratch);
  return prepared->madeForward(lhs, make, prepared->sort(group, bytes), result, bytes);
}

} // namespace autopar::cpumath
