/*
 * One claim of one charge: holders, deputies and workers over one row, and a provider. Leases lapse
 * at any time, so a holder may be slow, paused, or a deputy's that acts beside a living home.
 * `go test ./claim -run TestSpin` checks it. docs/design/claims.md has the rules in words.
 *
 * DEDUPES: the provider moves the money of a provider key once. Without it the provider can only be
 * asked, and a holder asks before it sends; then the model holds only if the lease outlasts the
 * clocks' offset and a send's way (BOUND). Each guard is left out by a macro of its name, and then
 * the model must fail.
 */

#define HOLDERS 3

mtype = { open, paid, declined };

mtype state = open;  /* of the row */
byte fence;          /* of the row */
byte moved;          /* how often money moved */
byte sent;           /* sends that are under way */
byte answer;         /* of the row: the fence of who wrote it, as each renders its own bytes */
byte read;           /* the first answer that a retry has read */
bool refuses;        /* what the provider decides of this charge, once */

/* Promise 1: at most one movement of money. */
#define once assert(moved <= 1)

/* provide is one send that arrives. */
inline provide(result) {
	if
	:: refuses -> result = declined
	:: else ->
#ifdef DEDUPES
		if
		:: moved == 0 -> moved++
		:: else -> skip
		fi;
#else
		moved++;
#endif
		once;
		result = paid
	fi
}

proctype Holder() {
	byte mine;
	mtype result = open;

	/* It begins, or takes the claim over: the lease may have lapsed at any time. */
	atomic {
		state == open;
#ifdef BOUND
		sent == 0; /* the former holder's lease has outlasted its send */
#endif
		fence++;
		mine = fence
	}
#ifndef DEDUPES
	/* It asks the provider what became of the charge. */
	if
	:: moved > 0 -> result = paid
	:: moved == 0 -> skip
	fi;
#endif
	if
	:: result == open ->
		atomic {
#ifdef BOUND
			/* A holder whose lease has ended by its own clock sends nothing. */
			if
			:: fence != mine -> goto out
			:: else -> skip
			fi;
#endif
			sent++
		}
		if
		:: atomic { sent > 0; provide(result); sent-- }
		:: atomic { sent > 0; provide(result); sent-- };  /* it arrived, the reply is lost: */
		   atomic { result = open }
		:: atomic { sent-- }                    /* it never arrived: the same to the holder */
		fi
	:: else -> skip
	fi;
	if
	:: result == open -> /* unknown: it settles nothing, and another takes over */
#ifdef UNKNOWN_IS_NO
		result = declined
#else
		goto out
#endif
	:: else -> skip
	fi;
	atomic {
		if
#ifdef NO_FENCE
		:: true -> state = result; answer = mine
#else
		:: fence == mine && state == open -> state = result; answer = mine
		:: else -> skip
#endif
		fi;
		/* Promise 6: no outcome is silently wrong. */
		assert(!(state == declined && moved > 0))
	}
out:	skip
}

/* Promise 2: each retry reads the same. */
active proctype Retry() {
end:
	do
	:: atomic { answer > 0 && read == 0 -> read = answer }
	:: atomic { read > 0 -> assert(answer == read) }
	od
}

init {
	byte i;
	atomic {
		if
		:: refuses = true
		:: refuses = false
		fi;
		do
		:: i < HOLDERS -> run Holder(); i++
		:: else -> break
		od
	}
}
