// SPDX-License-Identifier: Apache-2.0
// Tables that are made of tables, each once: the layers of a model begin with the same ones, and
// what was made for one of them is there for the next.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "ReducedProblem.h"

namespace autopar::planner {

/// A matrix as one of its ends sees it.
struct Side {
  MatrixRef matrix;
  bool isFirst = true; ///< own strategies are its rows, else its columns

  size_t own() const { return static_cast<size_t>(isFirst ? matrix->rows : matrix->columns); }
  size_t others() const { return static_cast<size_t>(isFirst ? matrix->columns : matrix->rows); }
  /// [own * others() + other]
  const std::vector<double> &table() const { return isFirst ? matrix->byRow : matrix->byColumn; }
  const double *row(size_t own) const { return table().data() + own * others(); }
};

/// Per own strategy of a side, or its numbers.
using IndexList = std::shared_ptr<const std::vector<int32_t>>;

/// Answers the same for the same: matrices are compared by who they are, what else is asked about
/// by value.
class MadeTables {
public:
  /// What the own strategies `picked` of `from` cost, in that order, with who picks as first end or
  /// second.
  MatrixRef pick(const Side &from, const std::vector<int32_t> &picked, bool isFirst);
  /// Entry by entry, at most kForbidden.
  MatrixRef sum(const MatrixRef &a, const MatrixRef &b);

  /// The least cost for every choice of the other ends, and who has it.
  struct Least {
    MatrixRef costs; ///< rows: the first of two others, else one; columns: the last of them
    IndexList best;  ///< [row * columns + column]
  };
  /// Over the strategies of a node that `cost` so much, of which `sides` are up to two edges.
  Least least(const std::vector<double> &cost, const std::vector<Side> &sides);

  /// 1 for own strategies with a legal partner, else 0.
  IndexList haveLegalPartners(const Side &side);
  /// The one legal partner of each own strategy, 0 where there is none; null where one has several.
  IndexList onlyPartners(const Side &side);
  /// The strategies of a node that no other one beats, whatever is chosen at the other ends.
  IndexList undominated(const std::vector<double> &cost, const NodeMemory &memory,
                        const std::vector<Side> &sides);

private:
  /// What is asked for, and about what.
  using Question = std::vector<uint64_t>;
  struct QuestionHash {
    size_t operator()(const Question &question) const;
  };
  struct Answer {
    MatrixRef matrix;
    IndexList list;
  };
  struct Known {
    Answer answer;
    std::vector<MatrixRef> about; ///< kept, so that no other matrix gets their addresses
  };
  /// What `make` returns, called where nobody knows it. Forgets everything where that is too much.
  template <typename Make>
  Answer ask(Question question, std::vector<MatrixRef> about, Make make);

  std::unordered_map<Question, Known, QuestionHash> known;
  size_t bytes = 0; ///< of what is known
};

} // namespace autopar::planner
