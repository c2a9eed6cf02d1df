// SPDX-License-Identifier: Apache-2.0
// How a value goes from a mesh to one of other sizes: every receiver gets its part, cut from the
// parts of those who have it; copies of a sender share the receivers.
#pragma once

#include "autopar/Transforms/Sharding.h"

namespace mlir::autopar {

/// How a value lies on both meshes while it is sent. In every dimension the number of shards on one
/// mesh divides that on the other, and both divide the extent: so a sender and a receiver have at
/// most one part in common, and all parts are of one size.
struct TransferForms {
  TensorSharding sent, received;
};

/// The forms nearest to how the value lies (`have` on `near`) and is wanted (on `far`).
TransferForms transferForms(ArrayRef<int64_t> shape, const TensorSharding &have,
                            const MeshAxes &near, const TensorSharding &wanted,
                            const MeshAxes &far);

/// The messages that every rank of both meshes sends or receives for one value. Which part of a
/// rank's tensor a message carries is the same on all ranks; with whom it is exchanged is not.
struct TransferRoute {
  struct Message {
    SmallVector<int64_t> start; ///< of the part in the local tensor
    SmallVector<int32_t> peers; ///< per point of the mesh: a rank, or -1 for no message
  };
  SmallVector<int64_t> shape; ///< of a part
  SmallVector<Message> sends; ///< a part may be sent several times
  /// Parts in row-major order; everybody receives all of them.
  SmallVector<Message> receives;
  SmallVector<int64_t> grid; ///< number of received parts per dimension
};

/// The route of what the transfer says, between its meshes.
FailureOr<TransferRoute> transferRoute(TransferOp transfer, MeshOp near, MeshOp far);

/// The route of a tensor that is `local` on each rank of `near` under the form `sent`.
TransferRoute transferRoute(ArrayRef<int64_t> local, const TensorSharding &sent, MeshOp near,
                            const TensorSharding &received, MeshOp far);

} // namespace mlir::autopar
