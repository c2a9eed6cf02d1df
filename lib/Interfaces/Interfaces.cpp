// SPDX-License-Identifier: Apache-2.0
// The generated parts of the operation interfaces.
#include "autopar/Interfaces/CollectiveInterface.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ExpansionInterface.h"
#include "autopar/Interfaces/GradientInterface.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Interfaces/PrecisionInterface.h"
#include "autopar/Interfaces/ShardingRuleInterface.h"
#include "autopar/Interfaces/ViewInterface.h"

#include "autopar/Interfaces/CollectiveInterface.cpp.inc"
#include "autopar/Interfaces/CostInterface.cpp.inc"
#include "autopar/Interfaces/ExpansionInterface.cpp.inc"
#include "autopar/Interfaces/GradientInterface.cpp.inc"
#include "autopar/Interfaces/LoweringInterface.cpp.inc"
#include "autopar/Interfaces/PrecisionInterface.cpp.inc"
#include "autopar/Interfaces/ShardingRuleInterface.cpp.inc"
#include "autopar/Interfaces/ViewInterface.cpp.inc"
