/*
 * The pin protocol of one opaque key, alone: pins, the move of a registrar, sweeps, deputies.
 * docs/design/homes.md has the rules in words. `go test ./claim -run TestSpin` checks it.
 *
 * Two regions, 0 and 1, are entries, homes and registrars. Time is in ticks. A request reads or
 * writes the pin, is late by any time, and begins at the home that it was given; whether a node of
 * the home or a deputy runs that statement makes no difference to the rows, so none is modelled.
 *
 * Each guard is left out by a macro of its name, and then the model must fail.
 */

#define WINDOWS 1 /* a claim answers for the key so long, and longer while it owes an outcome */
#define GRACE   2 /* Begin makes a claim under a pin that is younger */
#ifdef SHORT_PIN
#define LIFE    1
#else
#define LIFE    (WINDOWS + GRACE) /* the entry may take an older pin */
#endif
#define END     5 /* of time */
#define NONE    2

byte now;
byte registrar, former = NONE;

/* pins[r] is the key's pin in the partition of r. */
typedef Pin { byte home = NONE; byte at };
Pin pins[2];

/* claims[h] is the key's claim at h. */
typedef Claim { bool there; bool owes; byte at };
Claim claims[2];

/* Promise 4: a key has one home at a time. */
#define promise assert(!(claims[0].there && claims[1].there))

/* where is the partition that has the pin; the registrar's, if none has. */
inline find(where) {
	where = registrar;
#ifndef NO_FORMER
	if
	:: pins[registrar].home == NONE && former != NONE && pins[former].home != NONE -> where = former
	:: else -> skip
	fi
#endif
}

proctype Request(byte entry) {
	byte home, at, where, tries;
	do
	:: tries == 2 -> break
	:: else ->
		tries++;
		/* One statement: a pin is read, confirmed with a fresh time, or written. */
		atomic {
			find(where);
			if
			:: pins[where].home == NONE -> pins[where].home = entry; pins[where].at = now
			:: pins[where].home != NONE && now - pins[where].at < LIFE ->
				if
				:: pins[where].at = now /* it confirms */
				:: skip                 /* it has read it before */
				fi
			:: pins[where].home != NONE && now - pins[where].at >= LIFE ->
				/* The old home is asked; the pin's time is compared when it is taken. */
				if
#ifndef NO_ASKING
				:: claims[pins[where].home].there -> home = NONE /* 503, or the claim answers */
				:: !claims[pins[where].home].there -> pins[where].home = entry; pins[where].at = now
#else
				:: pins[where].home = entry; pins[where].at = now
#endif
				fi
			fi;
			home = pins[where].home; at = pins[where].at
		}
		/* Time may pass here. */
		atomic {
			if
			:: claims[home].there -> break /* a twin */
#ifdef NO_YOUNG_PIN
			:: !claims[home].there ->
#else
			:: !claims[home].there && now - at < GRACE ->
#endif
				claims[home].there = true; claims[home].owes = true; claims[home].at = now;
				promise;
				break
#ifndef NO_YOUNG_PIN
			:: !claims[home].there && now - at >= GRACE -> skip /* NeedPin */
#endif
			fi
		}
	od
}

/* An outcome comes at any time. */
active [2] proctype Settle() {
	atomic { claims[_pid % 2].owes -> claims[_pid % 2].owes = false }
}

/* The gateway's sweeper, of claims and of pins. */
active proctype Sweep() {
	byte h;
end:
	do
	:: atomic { claims[h].there && !claims[h].owes && now - claims[h].at >= WINDOWS -> claims[h].there = false }
	:: atomic { pins[h].home != NONE && now - pins[h].at >= LIFE && !claims[pins[h].home].there -> pins[h].home = NONE; pins[h].at = 0 }
	:: h = 1 - h
	od
}

active proctype Move() {
	atomic { former = registrar; registrar = 1 - registrar }
	/* The former one is forgotten once it has no pin. */
end:	atomic { pins[former].home == NONE -> former = NONE }
}

active proctype Clock() {
	do
	:: now < END -> now++
	:: now == END -> break
	od
}

init {
	atomic {
		run Request(0);
		run Request(1)
	}
}
