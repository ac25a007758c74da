// The account of one quota for one node type: what it holds, uses and has passed on to its
// children.
//
// Unit: Amount (GPU and CPU thousandths, bytes), so sums are exact.
// Errors: none. A broken precondition stops the program.
// Source: DESIGN section 4. Keeps I1: used and booked never exceed holding.
#pragma once
#include "scheduling/amount.hpp"

namespace ebb::scheduling {

struct Account {
  Amount holding;  // given by the parent and not yet returned; root: what its live nodes offer
  Amount booked;   // given on to the children and not yet known to be returned
  Amount used;     // charged to this quota's own in-quota claims
  Amount leaving;  // of `used`, held by victims already told to go
};
/// What may still be admitted in-quota, given to a child or returned. Below zero only at a root
/// that lost nodes.
Amount free_amount(const Account& account);

struct Restitution {
  Amount now;           // free: returned at once
  Amount from_victims;  // to be freed by further victims, own or the children's, before it can be
                        // returned
};
/// How to come down to `hold_at_most`: free units first, then what is not yet on its way. `coming`:
/// what children have been told to return and have not returned yet. The wish is a level, not an
/// amount: hearing it twice returns nothing and hurts no one twice.
Restitution decide_restitution(const Account& account, const Amount& hold_at_most,
                               const Amount& coming);

}  // namespace ebb::scheduling
