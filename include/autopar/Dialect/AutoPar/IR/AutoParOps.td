// SPDX-License-Identifier: Apache-2.0
// The operations of the dialect, one file per family.

#ifndef AUTOPAR_OPS_TD
#define AUTOPAR_OPS_TD

include "autopar/Dialect/AutoPar/IR/StructureOps.td"
include "autopar/Dialect/AutoPar/IR/ElementwiseOps.td"
include "autopar/Dialect/AutoPar/IR/ContractionOps.td"
include "autopar/Dialect/AutoPar/IR/GroupedProductOps.td"
include "autopar/Dialect/AutoPar/IR/ReductionOps.td"
include "autopar/Dialect/AutoPar/IR/AttentionOps.td"
include "autopar/Dialect/AutoPar/IR/DataMovementOps.td"
include "autopar/Dialect/AutoPar/IR/GenerationOps.td"
include "autopar/Dialect/AutoPar/IR/CollectiveOps.td"
include "autopar/Dialect/AutoPar/IR/MicroBatchOps.td"
include "autopar/Dialect/AutoPar/IR/RoundOps.td"
include "autopar/Dialect/AutoPar/IR/StageOps.td"
include "autopar/Dialect/AutoPar/IR/UpdateOps.td"
include "autopar/Dialect/AutoPar/IR/ProfiledOps.td"

#endif
