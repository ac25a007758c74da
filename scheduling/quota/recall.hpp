// How a parent takes units back from its children: what they leave unused first, then what planned
// victims hold.
//
// Unit: Amount of one node type. Errors: none.
// Source: DESIGN section 4, child-level preemption. A due is what a child has been asked to return
// and has not returned yet; a child's level is booked - due, so a return lowers both and leaves the
// level where it was.
#pragma once
#include <vector>

#include "scheduling/amount.hpp"

namespace ebb::scheduling {

struct Due {
  Amount unused;   // asked of what the child does not use
  Amount victims;  // asked of what victims in its subtree hold
  Amount total() const { return unused + victims; }
};
/// A child as its parent sees it.
struct Lender {
  Amount booked;        // given and not yet known to be returned
  Amount used;          // charged in its subtree, as last heard
  Due due;              // asked already
  Amount victims_held;  // by victims of a new plan that lie in its subtree
};
/// What the child could return without hurting anyone, beyond what is due already.
Amount spare(const Lender& lender);
/// New dues, one for each lender, that together cover `amount`: victims of the plan first (they
/// leave anyway), then unused units in the order of the lenders. What cannot be covered is left
/// out.
std::vector<Due> decide_recall(const std::vector<Lender>& lenders, const Amount& amount);
/// A child has returned `amount`: its due after that.
Due settle_due(Due due, const Amount& amount);
/// Dues above `needed` in sum are lifted again, victims' part first and the last lender first.
void lift_dues(std::vector<Due*> dues, const Amount& needed);

}  // namespace ebb::scheduling
