// SPDX-License-Identifier: Apache-2.0
// Products in which data tells each row by which matrix it is multiplied: a mixture of experts
// without capacities, where no token is dropped.

#ifndef AUTOPAR_GROUPEDPRODUCTOPS_TD
#define AUTOPAR_GROUPEDPRODUCTOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

class AutoPar_GroupedProduct<string mnemonic> : AutoPar_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["partition"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getTouchedBytes"]>]> {
  let results = (outs AutoPar_Tensor:$result);
  let hasVerifier = 1;
}

def AutoPar_GroupedDotOp : AutoPar_GroupedProduct<"grouped_dot"> {
  let summary = "rows times the matrix of their group";
  let description = [{
    `lhs` is [rows..., depth], `rhs` [groups, depth, columns], with `transposed` [groups, columns, depth], and `group` [rows...]
    says which matrix a row of `lhs` is multiplied by. The result is [rows..., columns]. A row whose number is that of no group is
    zero. It is `gather_mm` of DGL, the grouped GEMM of CUTLASS without an order of rows.

    `among` stands on a device's part of the groups: over how many the rows are spread.

    With `in_parts` the groups are in parts of as many each: `lhs` is [parts, rows..., depth], the result [parts, rows..., columns],
    and a row is zero in all parts but that of its group.

    `%y = autopar.grouped_dot %x, %w, %expert
       : (tensor<6x16xf32>, tensor<4x16x32xf32>, tensor<6xi64>) -> tensor<6x32xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$lhs, AutoPar_Tensor:$rhs, AutoPar_IndexTensor:$group, UnitAttr:$transposed,
    OptionalAttr<I64Attr>:$among, UnitAttr:$in_parts);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $group (`transposed` $transposed^)? (`in_parts` $in_parts^)? (`among` $among^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// Where `rhs` has the dimension that is summed over, and the columns of the result.
    int64_t getDepthDim() { return getTransposed() ? 2 : 1; }
    int64_t getColumnDim() { return getTransposed() ? 1 : 2; }
  }];
}

def AutoPar_GroupedDotRhsGradOp : AutoPar_GroupedProduct<"grouped_dot_rhs_grad"> {
  let summary = "the gradient of a grouped_dot's matrices";
  let description = [{
    `lhs` is [rows..., depth], `gradient` [rows..., columns] and `group` [rows...]; the result is [groups, depth, columns]: of each
    group the sum over its rows of the outer products of both. Rows of no group count nowhere. `among`, and `in_parts` of both
    `lhs` and `gradient`: as of `grouped_dot`.
  }];
  let arguments = (ins AutoPar_Tensor:$lhs, AutoPar_Tensor:$gradient, AutoPar_IndexTensor:$group,
    OptionalAttr<I64Attr>:$among, UnitAttr:$in_parts);
  let assemblyFormat = [{
    $lhs `,` $gradient `,` $group (`in_parts` $in_parts^)? (`among` $among^)? attr-dict `:` functional-type(operands, results)
  }];
}

class AutoPar_TiledProduct<string mnemonic> : AutoPar_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getTouchedBytes"]>]> {
  let results = (outs AutoPar_Tensor:$result);
  let hasVerifier = 1;
  let extraClassDeclaration = "static constexpr int64_t tileRows = 128;";
}

def AutoPar_GroupedDotTilesOp : AutoPar_TiledProduct<"grouped_dot_tiles"> {
  let summary = "a grouped_dot whose rows stand in tiles of one group each";
  let description = [{
    Made of a grouped_dot by autopar-tile-grouped-products, for kernels. `order` has 128 numbers of rows for each tile, -1 where it
    has fewer, and `tile_group` says by which matrix a tile is multiplied. A number below 0 is of a tile without rows; that of no
    matrix makes zeros.

    `%y = autopar.grouped_dot_tiles %x, %w, %order, %group
       : (tensor<6x16xbf16>, tensor<4x16x32xbf16>, tensor<640xi32>, tensor<5xi32>) -> tensor<6x32xbf16>`
  }];
  let arguments = (ins AutoPar_Tensor:$lhs, AutoPar_Tensor:$rhs, AutoPar_IndexTensor:$order, AutoPar_IndexTensor:$tile_group,
    UnitAttr:$transposed, OptionalAttr<I64Attr>:$among);
  let assemblyFormat = [{
    $lhs `,` $rhs `,` $order `,` $tile_group (`transposed` $transposed^)? (`among` $among^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def AutoPar_GroupedDotRhsGradTilesOp : AutoPar_TiledProduct<"grouped_dot_rhs_grad_tiles"> {
  let summary = "a grouped_dot_rhs_grad whose rows stand in tiles of one group each";
  let description = [{
    `order` as of grouped_dot_tiles; `first_tile` has the first tile of each group, and behind the last group where its tiles end.
  }];
  let arguments = (ins AutoPar_Tensor:$lhs, AutoPar_Tensor:$gradient, AutoPar_IndexTensor:$order, AutoPar_IndexTensor:$first_tile,
    OptionalAttr<I64Attr>:$among);
  let assemblyFormat = [{
    $lhs `,` $gradient `,` $order `,` $first_tile (`among` $among^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif
